package provider

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/pipeline"
)

var _ pipeline.Extractor = (*baseline)(nil)

func TestExtract_call(t *testing.T) {
	before := time.Now()
	found, calls, err := testBaseline.Extract(context.Background(), generalDocument(prose))
	if err != nil || len(calls) != 1 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	call := calls[0]
	if call.Name != "baseline-extract" || call.Kind != "span" || call.Started.Before(before) || !call.Started.Before(call.Ended) || time.Now().Before(call.Ended) {
		t.Errorf("call %+v", call)
	}
	var out counts
	if err := json.Unmarshal(call.Output, &out); err != nil {
		t.Fatal(err)
	}
	if out.Entities != len(found.Entities) || out.Relationships != len(found.Relationships) || out.Mentions == 0 {
		t.Errorf("output %s", call.Output)
	}
}

// TestExtract_times checks that the times of the call are in UTC.
func TestExtract_times(t *testing.T) {
	_, calls, err := testBaseline.Extract(t.Context(), extraction.Document{Text: "Ann"})
	if err != nil || calls[0].Started.Location() != time.UTC || calls[0].Ended.Location() != time.UTC {
		t.Errorf("%v %v", calls, err)
	}
}

func TestExtract_cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, calls, err := testBaseline.Extract(&endingContext{ctx, cancel, 5}, generalDocument(strings.Repeat(prose, 2_000)))
	if !errors.Is(err, context.Canceled) || len(calls) != 1 || calls[0].Error == "" {
		t.Errorf("got %v and calls %+v", err, calls)
	}
}

// endingContext is cancelled when its error is read for the last of some times.
type endingContext struct {
	context.Context
	cancel context.CancelFunc
	reads  int
}

func (c *endingContext) Err() error {
	if c.reads--; c.reads == 0 {
		c.cancel()
	}
	return c.Context.Err()
}

func TestExtract_developmentDocuments(t *testing.T) {
	for _, doc := range developmentDocuments(t) {
		checkExtraction(t, doc, extract(t, doc))
	}
}

// checkExtraction checks what holds for every extraction of the baseline.
func checkExtraction(t *testing.T, doc extraction.Document, found extraction.Extraction) {
	t.Helper()
	if found.Entities == nil || found.Relationships == nil {
		t.Fatal("a list is nil")
	}
	text := []rune(doc.Text)
	listed := map[string]bool{}
	for _, e := range found.Entities {
		if _, ok := doc.Objects[e.Type]; len(doc.Objects) > 0 && !ok || len(doc.AllowedTypes) > 0 && !slices.Contains(doc.AllowedTypes, e.Type) {
			t.Fatalf("%q has the type %q, which is not allowed", e.Name, e.Type)
		}
		if e.Name == "" || listed[e.Name] || len(e.Mentions) == 0 {
			t.Fatalf("%q: empty, listed twice or nowhere mentioned", e.Name)
		}
		listed[e.Name] = true
		for _, m := range e.Mentions {
			// A byte that is not UTF-8 is one code point; as runes both are U+FFFD.
			if m.Start < 0 || m.End > len(text) || m.Start >= m.End || !slices.Equal(text[m.Start:m.End], []rune(m.Quote)) {
				t.Fatalf("%q: %+v does not quote the text", e.Name, m)
			}
		}
	}
	for _, r := range found.Relationships {
		if _, ok := doc.Relationships[r.Type]; !ok || !listed[r.Source] || !listed[r.Target] || r.Source == r.Target {
			t.Fatalf("bad relationship %+v", r)
		}
	}
}

func TestExtract_hostileTexts(t *testing.T) {
	for name, text := range largeTexts(20 << 10) {
		t.Run(name, func(t *testing.T) {
			doc := generalDocument(text)
			checkExtraction(t, doc, extract(t, doc))
		})
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(prose, "Person", "works_for", "")
	f.Add("2021年3月4日，埃隆·马斯克在杭州市收购500万元的公司。", "组织", "收购", "")
	f.Add("أعلنت شركة النيل أن السيد محمد العلي", "شخص", "works for", "Person")
	f.Add("Die Kessler GmbH wurde von «Hans» (1890 – 1947) „gegründet“.", "Firma", "founded_by", "")
	f.Add("\xff\xfe'\u200b’s d'A.B. a@b.c http:// 1-2-3 ((\"", "code", "_by", "x")
	f.Add("《\xbb》", "0", "0", "")
	f.Add("§.'-&·《》A\u0301 Ⅻ ʼn İ ẞ", "", "", "")
	f.Fuzz(func(t *testing.T, text, object, relation, allowed string) {
		doc := generalDocument(text)
		doc.Objects[object] = extraction.ObjectSchema{Name: object, Description: relation}
		doc.Relationships[relation] = extraction.RelationshipSchema{Name: relation, Description: object}
		if allowed != "" {
			doc.AllowedTypes = []string{allowed, object, "Person", "Organization"}
		}
		checkExtraction(t, doc, extract(t, doc))
	})
}
