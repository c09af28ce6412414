package advise

import "time"

// Drop takes back an attempt that was added with the same arguments, because its outcome was not written.
func (c *Collector) Drop(lane Lane, age time.Duration, succeeded bool, waited time.Duration) {
	i := bandOf(age)
	t := &c.bands[i].Lanes[lane]
	t.Tried--
	if succeeded {
		t.Succeeded--
	}
	if lane == Failed {
		c.bands[i].Waited -= waited.Seconds()
		c.bands[i].Aged -= age.Seconds()
	}
}
