package langfuse

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// CurrentDatasetVersion returns the version to pin listings of a dataset to that
// holds what is in it now: an instant of the server's clock, or the time of the
// newest item where that clock is behind it (a proxy may set an old Date). It
// may wait a second, for a second of the server to end. Retried; errors: those
// of GetHealth and ListDatasetItems, ErrNotFound among them.
//
// API: GET /api/public/health, GET /api/public/dataset-items
func (c *Client) CurrentDatasetVersion(ctx context.Context, name string) (time.Time, error) {
	var created time.Time
	var unlisted error
	var asked sync.WaitGroup
	asked.Go(func() { created, unlisted = c.newestItem(ctx, name) })
	before := time.Now()
	health, err := c.GetHealth(ctx)
	after := time.Now()
	asked.Wait()
	if err := cmp.Or(err, unlisted); err != nil {
		return time.Time{}, err
	}
	now, wait := serverNow(health.Time, before, after)
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
	if created.After(now) {
		now = created
	}
	return now.UTC(), nil
}

// newestItem returns when the newest item was made; zero where there is none. A
// version in the future gives the items as they are, the newest first.
func (c *Client) newestItem(ctx context.Context, name string) (time.Time, error) {
	query := DatasetItemsQuery{DatasetName: name, Version: time.Now().AddDate(1, 0, 0), Limit: 1}
	for item, err := range c.ListDatasetItems(ctx, query) {
		return item.CreatedAt, err
	}
	return time.Time{}, nil
}

// serverNow returns the server's time from its clock, which tells seconds only,
// and how long to wait until that time has come. Where our clock agrees with
// it, ours is taken, which is finer; else the end of the server's second: a
// version in the middle of it could leave out, or bring back, what was written
// or archived just before.
func serverNow(server, before, after time.Time) (now time.Time, wait time.Duration) {
	agrees := !server.Before(before.Truncate(time.Second)) && !server.After(after)
	if server.IsZero() || agrees {
		return after.UTC(), 0
	}
	return server.Add(time.Second).UTC(), time.Second
}
