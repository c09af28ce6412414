package simulate

import "context"

// What the naive walk of the tests needs to be asked the same questions.

func (w *Workload) Drawn() []Record { return w.records(context.Background()) }

var (
	Draw     = luckOf
	Blocks   = blocks
	BucketOf = bucketOf
	StyleOf  = styleOf
)
