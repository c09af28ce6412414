package simulate

import (
	"context"
	"time"
)

// The naive walk of the tests draws the same records and numbers.

func (w *Workload) Drawn() []Record { return w.records(context.Background()) }

var (
	Roll        = roll
	BucketWidth = bucketWidth
)

// SetCallTime has every call take a time of its own.
func (o *Options) SetCallTime(of func(record, try int) time.Duration) { o.callTime = of }

// HasRecovered reports whether a record has recovered.
func (w *Workload) HasRecovered(r *Record, at time.Time) bool { return w.hasRecovered(r, at) }
