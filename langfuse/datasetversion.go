package langfuse

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"
)

// DatasetVersion is a dataset as it is at one instant.
type DatasetVersion struct {
	// Time pins listings to that instant. It is of the server's clock (see
	// Health.Time), to the millisecond.
	Time time.Time
	// Items is how many items are expected, so that no page has to be read to learn
	// how many there are. A wrong number costs time, and so does 0, which is none
	// known.
	Items int
	// ItemBytes is about the size of one of them; 0 where Items is.
	ItemBytes int
}

// CurrentDatasetVersion returns the version to pin listings of a dataset to that
// holds what is in it now: an instant of the server's clock, or the time of the
// newest item where that clock is behind it (a proxy may set an old Date). It
// may wait a second, for a second of the server to end. Retried; errors: those
// of GetHealth and ListDatasetItems, ErrNotFound among them.
//
// API: GET /api/public/health, GET /api/public/dataset-items
func (c *Client) CurrentDatasetVersion(ctx context.Context, name string) (DatasetVersion, error) {
	var newest numberedPage[DatasetItem]
	var unlisted error
	var asked sync.WaitGroup
	asked.Go(func() { newest, unlisted = c.newestItem(ctx, name) })
	before := time.Now()
	health, err := c.GetHealth(ctx)
	after := time.Now()
	asked.Wait()
	if err := cmp.Or(err, unlisted); err != nil {
		return DatasetVersion{}, err
	}
	now, wait := serverNow(health.Time, before, after)
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return DatasetVersion{}, ctx.Err()
	}
	v := DatasetVersion{Time: now.UTC()}
	if len(newest.Data) == 0 {
		return v, nil
	}
	if created := newest.Data[0].CreatedAt; created.After(now) {
		v.Time = created.UTC()
	}
	v.Items, v.ItemBytes = int(newest.Meta.TotalPages), newest.Data[0].size()
	return v, nil
}

// newestItem returns a page of the newest item; its pages are the items. A version
// in the future gives the items as they are, the newest first.
func (c *Client) newestItem(ctx context.Context, name string) (numberedPage[DatasetItem], error) {
	query := url.Values{"datasetName": {name}}
	setTime(query, "version", time.Now().AddDate(1, 0, 0))
	page, err := getPage[DatasetItem](ctx, c, "dataset-items", query, 1, 1)
	if err != nil {
		err = fmt.Errorf("items of dataset %q: %w", name, err)
	}
	return page, err
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
