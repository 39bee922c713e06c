package seed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// experimentSign says by what a trace is known to be of an experiment; "" where it
// is not. Runs of this project and of Langfuse's SDKs have the name of the root on
// every server, and mostly the environment. Spans of other programs show the
// attributes of an experiment in their metadata, older SDKs the id of the item. A
// trace of production that has one of these by mistake counts as well: no answer
// of a model becomes gold by a doubt.
func experimentSign(trace langfuse.Trace) string {
	const environment, name = "sdk-experiment", "experiment-item-run"
	root, _ := trace.Root()
	switch {
	case trace.Environment == environment || root.Environment == environment:
		return "its environment is " + environment
	case trace.Name == name || root.Name == name:
		return "its name is " + name
	}
	for _, raw := range []json.RawMessage{trace.Metadata, root.Metadata} {
		var metadata, attributes map[string]json.RawMessage
		_ = json.Unmarshal(raw, &metadata) // what is not an object has no such keys
		_ = json.Unmarshal(metadata["attributes"], &attributes)
		for key := range attributes {
			metadata["attributes."+key] = nil
		}
		for key := range metadata {
			if key == "dataset_item_id" || strings.HasPrefix(key, "attributes.langfuse.experiment.") {
				return "its metadata name an item of a dataset"
			}
		}
	}
	return ""
}

// link is the item of a dataset that a trace is linked to, and the run.
type link struct{ item, run string }

// linkedItem is such an item, as it is or becomes.
type linkedItem struct {
	dataset.Item
	since   time.Time // when it became what the dataset has
	changed bool
}

// openLinked finds the items that the traces are linked to by the runs of the
// dataset, in every view that the server has, and reads them. It lists the runs
// until all traces are found, with a request or more for each, and the dataset once.
// Memory: the items that are linked.
func (t *traceSeeder) openLinked(ctx context.Context, list []candidate) error {
	found, err := t.client.GetDataset(ctx, t.cfg.Dataset)
	if err != nil { // an error of Langfuse has a code, an unknown name none
		return cli.WithCode(cli.ExitUsage, err)
	}
	if err := t.findLinks(ctx, found, list); err != nil {
		return fmt.Errorf("looking for the traces in the runs of %q: %w", t.cfg.Dataset, err)
	}
	cfg := t.cfg.Config
	cfg.IDPrefix, cfg.DryRun = "", cfg.DryRun || t.cfg.Out != nil
	t.result.Dataset = found
	t.seeder = &seeder{client: t.client, cfg: cfg, result: &t.result.Result, there: map[string]digest{}}
	cfg.Schemas = Schemas{found.InputSchema, found.ExpectedOutputSchema}
	if t.checker, err = newChecker(cfg); err != nil {
		return err
	}
	for _, l := range t.links {
		t.items[l.item] = nil
	}
	for stored, err := range Stored(ctx, t.client, t.cfg.Dataset) {
		if err != nil {
			return err
		}
		if _, wanted := t.items[stored.ID]; wanted {
			t.items[stored.ID] = &linkedItem{Item: itemOf(stored), since: stored.CreatedAt}
			t.seeder.there[stored.ID] = digestOf(itemOf(stored))
		}
	}
	return nil
}

func (t *traceSeeder) findLinks(ctx context.Context, of langfuse.Dataset, list []candidate) error {
	wanted := map[string]bool{}
	for _, c := range list {
		wanted[c.id] = true
	}
	for _, view := range t.server.Views() {
		for run, err := range t.client.ListRuns(ctx, view, of) {
			if err != nil || len(wanted) == 0 {
				return err
			}
			ref := langfuse.RunRef{DatasetID: of.ID, Name: run.Name, ID: run.ID}
			for item, err := range t.client.ListRunItems(ctx, langfuse.Server{Capabilities: t.server}, view, ref) {
				if err != nil {
					return err
				}
				if wanted[item.TraceID] {
					t.links[item.TraceID] = link{item.ItemID, run.Name}
					delete(wanted, item.TraceID)
				}
			}
		}
	}
	return nil
}

// review takes what people said of a few traces, one after the other: two may be
// of one item.
func (t *traceSeeder) review(ctx context.Context, traces []candidate) error {
	return t.seeder.write(ctx, func(func(dataset.Located)) error {
		for _, c := range traces {
			out, err := made{}, c.bad
			if err == nil {
				out, err = t.reviewed(c)
			}
			if err != nil {
				t.refuse(c.id, err)
			} else if err = t.change(ctx, c.id, out); err != nil || ctx.Err() != nil {
				return errors.Join(err, ctx.Err())
			}
		}
		return nil
	})
}

// change writes an item with its new review, where there is one.
func (t *traceSeeder) change(ctx context.Context, trace string, out made) error {
	linked := t.items[out.item.ID]
	was := linked.Item
	located := dataset.Located{Item: out.item, File: traceLabel(trace)}
	t.result.Report.Warnings.add(located, out.warnings...)
	t.seeder.show = func(located dataset.Located, change Change) {
		shown := Seeded{Change: change, Trace: trace, Evidence: out.evidence, Content: &located.Item}
		if change.Action == Updated {
			linked.Item, linked.changed = located.Item, true
			t.seeder.there[change.Item] = digestOf(located.Item)
			if t.cfg.Before {
				shown.Before = &was
			}
		}
		if t.cfg.Show != nil {
			t.cfg.Show(shown)
		}
	}
	if string(was.Expected) != string(out.item.Expected) { // a confirmed gold stays whatever it is
		n := t.checker.item(located)
		t.result.Report.add(located, n)
		if t.seeder.skips(located, n.problems) {
			return nil
		}
	}
	t.result.Evidence[out.evidence.Kind]++
	return t.seeder.one(ctx, located)
}

// reviewed returns the item of a trace as what was said of it makes it. The error
// is one *Finding or several.
func (t *traceSeeder) reviewed(c candidate) (made, error) {
	var out made
	item, l, err := t.linked(c)
	if err != nil {
		return out, err
	}
	seen, err := t.mapper.choose(c.trace, c.scores)
	if err != nil {
		return out, err
	}
	es := newEvidenceSearch(c.trace, c.scores, t.mapper.queues, t.cfg.Mapping.Evidence, seen)
	if err := es.undecided(); err != nil {
		return out, err
	}
	evidence, _ := es.inQueue()
	correction, corrected := es.correction()
	out.item, out.evidence = item.Item, evidence
	now, completed := dataset.GoldHash(item.Expected), evidence.Time
	review := Review{Verdict: Confirmed, Gold: now, At: completed, By: evidence.Author, Trace: c.id, Run: l.run, Queue: evidence.Name}
	if corrected {
		review.At, review.By = correction.Timestamp.UTC(), cmp.Or(correction.AuthorUserID, evidence.Author)
		out.evidence = evidenceOf(ByCorrection, correction)
	}
	doubt, doubted := doubtOf(es.scores, t.cfg.Dataset, item.ID)
	if doubt != nil {
		review.Gold, review.Findings = doubt.Gold, doubt.Findings
	}
	if review.isIn(Reviews(item.Metadata), corrected, doubt != nil) {
		return out, nil
	}
	// Audit queues no trace twice, and its newest doubt replaces the one before.
	if doubt != nil && doubted.After(completed) && item.since.After(completed) {
		return out, refuse(GoldChanged, "", "was completed before the item %s and the doubt about its gold became what they are: "+
			"open it again in the queue, look at the gold, and complete it", item.ID)
	}
	gold := item.Expected
	if corrected {
		if gold, err = t.mapper.expected(&out, seen, correction, true); err != nil {
			return out, err
		}
	}
	next := dataset.GoldHash(gold)
	if next != now { // else it is the same in another form
		out.item.Expected = gold
	}
	if review.Gold != now && (!corrected || next != now) {
		return out, refuse(GoldChanged, "", "the gold of the item %s changed since it was queued (it is %s, and was %s): "+
			"nothing is changed; look at it again, in a trace of a newer run",
			item.ID, cmp.Or(now, "none"), cmp.Or(review.Gold, "none"))
	}
	if next != now || review.Gold != now {
		review.Verdict = Corrected
	}
	if out.item.Metadata, err = WithReview(item.Metadata, review); err != nil {
		return out, refuse(Refused, "metadata", "the item %s: %v", item.ID, err)
	}
	return out, nil
}

// undecided says why a trace neither corrects nor confirms its item; nil where it does.
func (es evidenceSearch) undecided() error {
	_, done := es.inQueue()
	_, corrected := es.correction()
	no, other := es.rejected(), es.unusedCorrection()
	switch {
	case !done:
		return refuse(NoEvidence, "", "the item of the queue is about another observation than the one that counts")
	case !corrected && other != "":
		return refuse(PassedOver, "", "is neither corrected nor confirmed: %s", other)
	case !corrected && no != "":
		return refuse(JudgedWrong, "", "%s, and there is no correction: correct the output, or take the annotation back", no)
	}
	return nil
}

// isIn reports whether a review is written already: a correction at its time, a
// confirmation once for a gold, or once where nobody wrote down which gold it was.
func (r Review) isIn(list []Review, corrected, doubted bool) bool {
	return slices.ContainsFunc(list, func(o Review) bool {
		switch {
		case o.Trace != r.Trace || o.Queue != r.Queue:
			return false
		case corrected:
			return o.At.Equal(r.At) || o.Verdict == Corrected && o.At.After(r.At)
		}
		return !doubted || o.Gold == r.Gold
	})
}

// linked returns the item that a trace is linked to.
func (t *traceSeeder) linked(c candidate) (*linkedItem, link, error) {
	l, ok := t.links[c.id]
	if sign := experimentSign(c.trace); !ok && sign != "" {
		return nil, l, refuse(NotLinked, "", "is of an experiment (%s), but no run over this dataset has it: "+
			"it is of another dataset, was run again, or its link has not arrived yet", sign)
	}
	if !ok {
		return nil, l, refuse(NotLinked, "", "is not a trace of an experiment over this dataset: "+
			"experiment seed --queue makes items of production's traces")
	}
	item := t.items[l.item]
	if item == nil {
		return nil, l, refuse(NotLinked, "", "the item %s of the run %s is archived or gone, and stays so", l.item, l.run)
	}
	return item, l, nil
}

// doubtOf returns what was written of the doubt about an item when its trace was queued,
// and when, the newest (scores are in that order); nil where there is none.
func doubtOf(scores []langfuse.Score, name, item string) (*Doubt, time.Time) {
	for _, s := range scores {
		var doubt Doubt
		if s.Name == DoubtScore && json.Unmarshal(s.Metadata, &doubt) == nil && doubt.Dataset == name && doubt.Item == item {
			return &doubt, s.Timestamp
		}
	}
	return nil, time.Time{}
}

// writeChanged writes the items that changed to the file, once each, sorted by id.
func (t *traceSeeder) writeChanged() error {
	for _, id := range slices.Sorted(maps.Keys(t.items)) {
		if item := t.items[id]; t.cfg.Out != nil && item != nil && item.changed {
			if err := t.cfg.Out.Write(item.Item); err != nil {
				return err
			}
			t.result.Written++
		}
	}
	return nil
}

// DoubtScore is the name of the score that experiment audit puts on a trace whose gold is
// doubtful, beside the item in a queue: a number from 0 to 1 with a Doubt as metadata.
const DoubtScore = "gold_doubt"

// Doubt is the metadata of a DoubtScore: what is doubtful, and in which gold.
type Doubt struct {
	Dataset  string   `json:"dataset"`
	Item     string   `json:"item"`
	Run      string   `json:"run"`
	Gold     string   `json:"gold"`     // dataset.GoldHash
	Findings []string `json:"findings"` // their keys
}

// What a person said of gold.
const (
	Corrected = "corrected"
	Confirmed = "confirmed"
)

// Review is what a person said of the gold of an item: an element of the list review of
// the item's metadata.
type Review struct {
	Verdict  string    `json:"verdict"` // Corrected or Confirmed
	Gold     string    `json:"gold"`    // dataset.GoldHash of the gold that was looked at
	Findings []string  `json:"findings,omitempty"`
	At       time.Time `json:"at"`
	By       string    `json:"by,omitempty"` // the person, where known
	Trace    string    `json:"trace,omitempty"`
	Run      string    `json:"run,omitempty"`
	Queue    string    `json:"queue,omitempty"`
}

// Reviews reads the reviews of an item's metadata; what is none is passed over.
func Reviews(metadata json.RawMessage) []Review {
	var m struct {
		Review []json.RawMessage `json:"review"`
	}
	_ = json.Unmarshal(metadata, &m)
	var list []Review
	for _, raw := range m.Review {
		var r Review
		if json.Unmarshal(raw, &r) == nil && (r.Verdict == Corrected || r.Verdict == Confirmed) {
			list = append(list, r)
		}
	}
	return list
}

// WithReview adds a review to an item's metadata, after those that are there. Metadata
// that are not an object, or have another review, are refused.
func WithReview(metadata json.RawMessage, review Review) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	var list []json.RawMessage
	err := json.Unmarshal(orNothing(metadata, json.RawMessage("{}")), &fields)
	if err == nil {
		err = json.Unmarshal(orNothing(fields["review"], json.RawMessage("[]")), &list)
	}
	if err != nil {
		return nil, fmt.Errorf("the metadata are not an object with a list of reviews, to which one could be added: %w", err)
	}
	reviews := append(cli.Each(list, func(raw json.RawMessage) any { return raw }), review)
	if fields["review"], err = dataset.Marshal(reviews); err != nil {
		return nil, err
	}
	return dataset.Marshal(fields)
}
