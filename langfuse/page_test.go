package langfuse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"extraction-experiment/internal/testkit/suite"
)

var testVersion = time.Date(2026, 11, 21, 3, 0, 0, 123456789, time.FixedZone("", 3600))

// pagedItems serves n items in numbered pages. The items from big on are so large that a page
// may contain at most fit of them; the server rejects other pages.
func pagedItems(n, big, fit int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.FormValue("page"))
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		first, last := min((page-1)*limit, n), min(page*limit, n)
		if last-max(first, big) > fit {
			tooLargeAnswer(w)
			return
		}
		items := []DatasetItem{}
		for i := first; i < last; i++ {
			items = append(items, DatasetItem{ID: strconv.Itoa(i), Input: json.RawMessage("{}"), ExpectedOutput: json.RawMessage("{}"), Metadata: json.RawMessage("{}")})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"data": items, "meta": map[string]any{"page": page, "totalPages": (n + limit - 1) / limit},
		})
	}
}

func tooLargeAnswer(w http.ResponseWriter) {
	w.WriteHeader(http.StatusUnprocessableEntity)
	_, _ = w.Write([]byte(`{"message":"too large","error":"PayloadTooLargeError"}`))
}

func TestPagesShrinkAndLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		limit := rapid.IntRange(0, 100).Draw(t, "limit")
		big := rapid.IntRange(0, n).Draw(t, "big")
		fit := rapid.IntRange(1, 120).Draw(t, "fit")
		expected := rapid.IntRange(0, 400).Draw(t, "expected") // may be wrong
		size := rapid.SampledFrom([]int{0, 600, maxBytesAhead}).Draw(t, "size")
		items := collect(t, fakeTimeClient(t, pagedItems(n, big, fit)).ListDatasetItems(t.Context(), DatasetItemsQuery{
			DatasetName: "d", Version: DatasetVersion{At: testVersion, Items: expected, ItemSize: size}, Limit: limit,
		}))
		for i, item := range items {
			if item.ID != strconv.Itoa(i) {
				t.Fatalf("item %s in place %d", item.ID, i)
			}
		}
		if len(items) != n {
			t.Fatalf("%d of %d items", len(items), n)
		}
	})
}

func TestOneItemThatIsTooLargeEndsTheList(t *testing.T) {
	client, _ := serve(t, pagedItems(3, 0, 0))
	n := 0
	for _, err := range client.ListDatasetItems(t.Context(), DatasetItemsQuery{DatasetName: "docs", Version: DatasetVersion{At: testVersion}}) {
		n++
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), `"docs"`) {
			t.Errorf("error %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d elements, want the error only", n)
	}
}

func TestListDatasetItems(t *testing.T) {
	client, record := serve(t, answers(t, "dataset_items.json"))
	items := collect(t, client.ListDatasetItems(t.Context(), DatasetItemsQuery{DatasetName: "a/b c%", Version: DatasetVersion{At: testVersion}}))
	if len(items) != 2 || items[0].ID != "i2" || string(items[1].Input) != "4" || string(items[1].ExpectedOutput) != "null" ||
		items[1].SourceObservationID != "b7ad6b7169203331" || items[0].Status != ItemActive {
		t.Errorf("%+v", items)
	}
	want := "/api/public/dataset-items?datasetName=a%2Fb+c%25&limit=64&page=1&version=2026-11-21T02%3A00%3A00.123Z"
	if got := record.seen()[0].uri; got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
}

func TestListsThatAskForTheImpossible(t *testing.T) {
	client, record := serve(t, answers(t, "dataset_items.json"))
	var errs []error
	for _, q := range []DatasetItemsQuery{{DatasetName: "d"}, {Version: DatasetVersion{At: testVersion}}, {DatasetName: "d", Version: DatasetVersion{At: testVersion}, Limit: 101}, {DatasetName: "d", Version: DatasetVersion{At: testVersion}, Limit: -1}} {
		for _, err := range client.ListDatasetItems(t.Context(), q) {
			errs = append(errs, err)
		}
	}
	if len(errs) != 4 || slices.Contains(errs, nil) || len(record.seen()) != 0 {
		t.Errorf("%d errors %v, %d requests", len(errs), errs, len(record.seen()))
	}
}

func TestIterationStopsWhereTheCallerStops(t *testing.T) {
	client, record := serve(t, pagedItems(30, 30, 0))
	for item, err := range client.ListDatasetItems(t.Context(), DatasetItemsQuery{DatasetName: "d", Version: DatasetVersion{At: testVersion}, Limit: 10}) {
		if err != nil {
			t.Fatal(err)
		}
		if item.ID == "12" {
			break
		}
	}
	// Page 3 is fetched ahead while page 2 is read.
	if n := len(record.seen()); n < 2 || n > 3 {
		t.Errorf("%d pages read, want 2 or 3", n)
	}
}

// TestPagesAhead checks that four pages after the first are requested concurrently, and only
// one if items are large.
func TestPagesAhead(t *testing.T) {
	const pages = 5
	for name, bytes := range map[string]int{"small": 10, "large": maxBytesAhead} {
		t.Run(name, func(t *testing.T) {
			if name == "large" {
				suite.Slow(t, "it reads pages of 8 MiB")
			}
			var running, maxRunning atomic.Int32
			all, timeout := make(chan struct{}), 20*time.Millisecond
			if name == "small" {
				timeout = 10 * time.Second // all requests arrive earlier
			}
			client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if page := r.FormValue("page"); page != "1" {
					n := running.Add(1)
					defer running.Add(-1)
					maxRunning.Store(max(maxRunning.Load(), n))
					if n == pages-1 {
						close(all)
					}
					select {
					case <-all:
					case <-time.After(timeout):
					}
				}
				item := DatasetItem{ID: r.FormValue("page"), Input: json.RawMessage(strconv.Quote(strings.Repeat("x", bytes))), ExpectedOutput: json.RawMessage("{}"), Metadata: json.RawMessage("{}")}
				_ = json.NewEncoder(w).Encode(map[string]any{"data": []DatasetItem{item}, "meta": map[string]any{"totalPages": pages}})
			})
			var got []string
			for _, item := range collect(t, client.ListDatasetItems(t.Context(), DatasetItemsQuery{DatasetName: "d", Version: DatasetVersion{At: testVersion}, Limit: 1})) {
				got = append(got, item.ID)
			}
			if strings.Join(got, "") != "12345" {
				t.Errorf("pages in the order %v", got)
			}
			if large := name == "large"; large != (maxRunning.Load() == 1) {
				t.Errorf("%d requests at once", maxRunning.Load())
			}
		})
	}
}

func TestEmptyPageEndsTheList(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[],"meta":{"totalPages":1000000}}`))
	})
	for _, err := range client.ListDatasets(t.Context()) {
		t.Fatal(err)
	}
	if n := len(record.seen()); n != 1 {
		t.Errorf("%d pages read", n)
	}
}

// TestPageOfEmptyElements checks that a small answer does not take much memory: a million empty
// observations took 1.2 GB.
func TestPageOfEmptyElements(t *testing.T) {
	list := "[" + strings.Repeat("null,", 1_000_000) + "null]"
	client := fakeTimeClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/public/dataset-items/one":
			_, _ = fmt.Fprintf(w, `{"id": "one", "input": %s}`, list)
		case "/api/public/traces/t":
			_, _ = fmt.Fprintf(w, `{"id": "t", "Observations": %s}`, list)
		case "/api/public/experiment-items":
			_, _ = fmt.Fprintf(w, `{"data": [{"id": "i", "scores": %s}], "meta": {}}`, list)
		default:
			_, _ = fmt.Fprintf(w, `{"data": %s, "meta": {}}`, list)
		}
	}))
	want := "has more than 65536 elements"
	for _, err := range client.ListObservations(t.Context(), ObservationsQuery{}) {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("a page: %v", err)
		}
	}
	for _, err := range client.ListExperimentItems(t.Context(), time.Unix(0, 0), "run") {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("the scores of an item: %v", err)
		}
	}
	_, err := client.GetTrace(t.Context(), Capabilities{}, "t", TraceParts{})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a trace: %v", err)
	}
	if item, err := client.GetDatasetItem(t.Context(), "one"); err != nil || len(item.Input) != len(list) {
		t.Errorf("the input of an item may be a long list: %v, %d bytes", err, len(item.Input))
	}
}

func TestCursors(t *testing.T) {
	pages := map[string]string{
		"":   `{"data":[{"id":"a"},{"id":"b"}],"meta":{"limit":2,"cursor":"x1"}}`,
		"x1": `{"data":[],"meta":{"cursor":"x2"},"_deprecation":{}}`,
		"x2": `{"data":[{"id":"c"}],"meta":{}}`,
	}
	client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(pages[r.FormValue("cursor")]))
	})
	scores := client.ListScores(t.Context(), ScoresQuery{Names: []string{"f1", "p"}, Limit: 2})
	for range 2 { // an iterator can be reused
		var ids []string
		for _, score := range collect(t, scores) {
			ids = append(ids, score.ID)
		}
		if !slices.Equal(ids, []string{"a", "b", "c"}) {
			t.Errorf("ids %v", ids)
		}
	}
	want := "/api/public/v3/scores?cursor=x1&fields=details%2Csubject%2Cannotation&limit=2&name=f1%2Cp"
	if got := record.seen()[1].uri; got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
}

func TestCursorThatLeadsNowhereIsAnError(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"id":"a"}],"meta":{"cursor":"again"}}`))
	})
	var last error
	n := 0
	for _, err := range client.ListScores(t.Context(), ScoresQuery{}) {
		last = err
		if n++; n > 10 {
			t.Fatal("it goes on and on")
		}
	}
	if exitCode(last) != 69 || !strings.Contains(last.Error(), "same cursor") {
		t.Errorf("error %v", last)
	}
}

func TestCursorPagesShrink(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if limit, _ := strconv.Atoi(r.FormValue("limit")); limit > 20 {
			tooLargeAnswer(w)
			return
		}
		_, _ = w.Write(sample(t, "observations.json"))
	})
	list := client.ListObservations(t.Context(), ObservationsQuery{TraceIDs: []string{"t"}, Limit: 1000})
	for loop := 1; loop <= 2; loop++ { // the second loop reads everything again
		n := len(collect(t, list))
		// The limits are 1000, 500, 250, 125 and, because 125 is odd, 1.
		if requests := record.seen(); n != 2 || len(requests) != 5*loop || !strings.Contains(requests[5*loop-1].uri, "limit=1&") {
			t.Errorf("%d observations, requests %v", n, requests)
		}
	}
}

func BenchmarkListDatasetItems(b *testing.B) {
	server := httptest.NewServer(pagedItems(1000, 1000, 0))
	defer server.Close()
	client, err := New(Config{BaseURL: server.URL, PublicKey: testPublic, SecretKey: NewSecret(testSecret)})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, err := range client.ListDatasetItems(b.Context(), DatasetItemsQuery{DatasetName: "d", Version: DatasetVersion{At: testVersion}, Limit: 100}) {
			if err != nil {
				b.Fatal(fmt.Errorf("listing: %w", err))
			}
		}
	}
}

// TestInOrder checks that results are in order even if the first call is slow, that a slow call
// does not block the others, and that no call is running after the first error.
func TestInOrder(t *testing.T) {
	var started, running, maxRunning atomic.Int32
	others := make(chan struct{}) // closed when 7 other calls have started
	get := func(ctx context.Context, i int) (int, error) {
		maxRunning.Store(max(maxRunning.Load(), running.Add(1)))
		defer running.Add(-1)
		if i == 0 {
			<-others
		} else if started.Add(1) == 7 {
			close(others)
		}
		if i == 15 {
			return 0, errors.New("no")
		}
		return i, nil
	}
	var got []int
	for i, err := range inOrder(t.Context(), 30, 4, 8, get) {
		if err != nil {
			got = append(got, -1)
			continue
		}
		got = append(got, i)
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, -1}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if n := maxRunning.Load(); n > 4 || running.Load() != 0 {
		t.Errorf("%d at once, %d left under way", n, running.Load())
	}
}
