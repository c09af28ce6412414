package simulate

import (
	"context"
	"time"
)

// What the naive walk of the tests needs to be asked the same questions.

func (w *Workload) Drawn() []Record { return w.records(context.Background()) }

var (
	Draw     = luckOf
	Blocks   = blocks
	BucketOf = bucketOf
	StyleOf  = styleOf
)

// SetCallTime has every call take a time of its own.
func (o *Options) SetCallTime(of func(record, try int) time.Duration) { o.callTime = of }
