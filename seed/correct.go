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
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

// experimentSign returns the mark that shows that a trace comes from an experiment, or "". Runs
// of this project and of Langfuse's SDKs name the root on every server, and mostly set the
// environment. Other programs leave the attributes of an experiment in the metadata of spans,
// older SDKs the id of the item. A production trace that carries such a mark by mistake counts
// as well, so that no doubtful model answer becomes gold.
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
		_ = json.Unmarshal(raw, &metadata) // metadata that are not an object have no such keys
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

// link is the dataset item that a trace is linked to, and the name of the run.
type link struct{ item, run string }

// linkedItem is an item that traces are linked to, with the changes of this call.
type linkedItem struct {
	dataset.Item
	storedAt time.Time // when Langfuse stored this version of the item
	changed  bool
}

// readLinkedItems finds the dataset items that the runs of the dataset link the traces to, in every
// view of the server, and reads these items. It lists runs until all traces are found, with one or
// more requests for each run, and lists the dataset once. Memory: the linked items.
func (t *traceSeeder) readLinkedItems(ctx context.Context, list []candidate) error {
	found, err := t.client.GetDataset(ctx, t.cfg.Dataset)
	if errors.Is(err, langfuse.ErrNotFound) {
		return cli.Usage("there is no dataset %q with gold to correct: --list names the datasets", t.cfg.Dataset)
	}
	if err != nil { // errors of Langfuse have an exit code already
		return cli.WithCode(cli.ExitUsage, err)
	}
	if err := t.findLinks(ctx, found, list); err != nil {
		return fmt.Errorf("looking for the traces in the runs of %q: %w", t.cfg.Dataset, err)
	}
	t.result.Dataset = found
	if err := t.openChecker(); err != nil {
		return err
	}
	for _, l := range t.links {
		t.items[l.item] = nil
	}
	for stored, err := range StoredItems(ctx, t.client, t.cfg.Dataset) {
		if err != nil {
			return err
		}
		if _, wanted := t.items[stored.ID]; wanted {
			t.items[stored.ID] = &linkedItem{Item: itemOf(stored), storedAt: stored.CreatedAt}
			t.seeder.existing[stored.ID] = digestOf(itemOf(stored))
		}
	}
	return nil
}

func (t *traceSeeder) findLinks(ctx context.Context, data langfuse.Dataset, list []candidate) error {
	wanted := map[string]bool{}
	for _, c := range list {
		wanted[c.id] = true
	}
	for _, view := range t.server.Views() {
		for run, err := range t.client.ListRuns(ctx, view, data) {
			if err != nil || len(wanted) == 0 {
				return err
			}
			ref := langfuse.RunRef{DatasetID: data.ID, Name: run.Name, ID: run.ID}
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

// reviewTraces applies the reviews of some traces one after the other, because two traces may be
// linked to the same item.
func (t *traceSeeder) reviewTraces(ctx context.Context, traces []candidate) error {
	for _, c := range traces {
		out, err := mappedItem{}, c.err
		if err == nil {
			out, err = t.reviewItem(c)
		}
		if err != nil {
			t.refuse(c.id, refusals(err))
		} else if err = t.writeReview(ctx, c.id, out); err != nil || ctx.Err() != nil {
			return fmt.Errorf("seeding: %w", errors.Join(err, ctx.Err()))
		}
	}
	return nil
}

// writeReview writes an item if its review is new.
func (t *traceSeeder) writeReview(ctx context.Context, trace string, out mappedItem) error {
	linked := t.items[out.item.ID]
	old := linked.Item
	located := dataset.Located{Item: out.item, File: traceLabel(trace)}
	t.result.Report.Warnings.add(located, out.warnings...)
	t.seeder.show = func(located dataset.Located, change Change) {
		shown := Seeded{Change: change, Trace: trace, Evidence: out.evidence, Content: &located.Item}
		if change.Action == Updated {
			linked.Item, linked.changed = located.Item, true
			t.seeder.existing[change.Item] = digestOf(located.Item)
			if t.cfg.Before {
				shown.Before = &old
			}
		}
		t.cfg.Show(shown)
	}
	if string(old.Expected) != string(out.item.Expected) { // confirmed gold is not checked again
		n := t.checker.item(located)
		t.result.Report.add(located, n)
		if t.seeder.skipBad(located, n.problems) {
			return nil
		}
	}
	written := digestOf(located.Item)
	if written != t.seeder.existing[old.ID] && t.seeder.changedMeanwhile(ctx, old.ID, written) {
		t.refuse(trace, []Finding{{Kind: GoldChanged, Message: "the item " + old.ID + " " + changedMeanwhile}})
		return nil
	}
	t.result.Evidence[out.evidence.Kind]++
	return t.seeder.writeItem(ctx, located)
}

// reviewItem returns the item of a trace with the review of the trace applied. The error is one or
// several joined *Finding.
func (t *traceSeeder) reviewItem(c candidate) (mappedItem, error) {
	var out mappedItem
	item, l, err := t.findLinkedItem(c)
	if err != nil {
		return out, err
	}
	src, err := t.mapper.choose(c.trace, c.scores)
	if err != nil {
		return out, err
	}
	es := newEvidenceSearch(c.trace, c.scores, t.mapper.queues, t.cfg.Mapping.Evidence, src)
	evidence, err := es.completion()
	if err != nil {
		return out, err
	}
	corrected := es.correction != nil
	out.item, out.evidence = item.Item, evidence
	oldHash, completedAt := dataset.GoldHash(item.Expected), evidence.Time
	review := Review{Verdict: Confirmed, Gold: oldHash, At: completedAt, By: evidence.Author, Trace: c.id, Run: l.run, Queue: evidence.Name}
	if corrected {
		out.evidence = evidenceOf(ByCorrection, *es.correction)
		review.At, review.By = out.evidence.Time, cmp.Or(out.evidence.Author, evidence.Author)
	}
	doubt, doubtedAt := findDoubt(es.scores, t.cfg.Dataset, item.ID)
	if doubt != nil {
		review.Gold, review.Findings = doubt.Gold, doubt.Findings
	}
	reviews := Reviews(item.Metadata)
	known := review.isIn(reviews, corrected, doubt != nil)
	if known && !(corrected && review.isUndone(reviews, oldHash)) {
		return out, nil
	}
	// Audit never queues a trace twice, and a newer doubt replaces an older one.
	if doubt != nil && doubtedAt.After(completedAt) && item.storedAt.After(completedAt) {
		return out, refuse(GoldChanged, "", "was completed before the item %s and the doubt about its gold became what they are: "+
			"open it again in the queue, look at the gold, and complete it", item.ID)
	}
	gold := item.Expected
	if corrected {
		if gold, err = t.mapper.expected(&out, src, es.correction); err != nil {
			return out, err
		}
	}
	newHash := dataset.GoldHash(gold)
	if newHash != oldHash { // else it is the same gold in another form
		out.item.Expected = gold
	}
	if review.Gold != oldHash && (!corrected || newHash != oldHash) {
		return out, refuse(GoldChanged, "", "the gold of the item %s changed since it was queued (it is %s, and was %s): "+
			"nothing is changed; look at it again, in a trace of a newer run, and take this one out of the queue",
			item.ID, cmp.Or(oldHash, "none"), cmp.Or(review.Gold, "none"))
	}
	// Without a doubt, only its time shows that a review is about the gold of now.
	older := item.changed || item.storedAt.After(review.At)
	for _, r := range reviews {
		other := r.Verdict == Corrected && r.Trace != c.id && (newHash != oldHash || !corrected)
		if doubt == nil && !known && older && other {
			return out, refuse(GoldChanged, "", "the item %s was corrected in the trace %s, in another way: nothing is changed; "+
				"let the two agree, or take one out of the queue", item.ID, r.Trace)
		}
	}
	if newHash != oldHash || review.Gold != oldHash {
		review.Verdict = Corrected
	}
	if known { // the gold alone is brought back
		return out, nil
	}
	for _, r := range reviews {
		if newHash != oldHash && r.Verdict == Confirmed && r.Gold == oldHash && r.Trace != c.id {
			out.warn(Contradicts, "expectedOutput", "is corrected, though in %s at %s a person confirmed the gold that was "+
				"there: let the two agree; metadata.review has both", cmp.Or(r.Queue, "an audit"), r.At.Format(time.RFC3339))
		}
	}
	if out.item.Metadata, err = WithReview(item.Metadata, review); err != nil {
		return out, refuse(Refused, "metadata", "the item %s: %v", item.ID, err)
	}
	return out, nil
}

// isIn reports whether the list already has a review of the same trace and queue that covers r:
// for a correction, one of the same time or a later correction; for a confirmation, one of the
// same gold and with all findings if a doubt recorded them, else any.
func (r Review) isIn(list []Review, corrected, doubted bool) bool {
	return slices.ContainsFunc(list, func(other Review) bool {
		switch {
		case other.Trace != r.Trace || other.Queue != r.Queue:
			return false
		case corrected:
			return other.At.Equal(r.At) || other.Verdict == Corrected && other.At.After(r.At)
		}
		return !doubted || other.Gold == r.Gold &&
			!slices.ContainsFunc(r.Findings, func(f string) bool { return !slices.Contains(other.Findings, f) })
	})
}

// isUndone reports whether r is the last correction in the list, and the gold is again the one that it
// replaced: a file without metadata leaves the reviews and replaces the gold.
func (r Review) isUndone(list []Review, gold string) bool {
	list = slices.DeleteFunc(slices.Clone(list), func(other Review) bool { return other.Verdict != Corrected })
	last := list[max(0, len(list)-1):]
	return r.isIn(last, true, false) && last[0].Gold == gold
}

// findLinkedItem returns the item that a trace is linked to.
func (t *traceSeeder) findLinkedItem(c candidate) (*linkedItem, link, error) {
	l, ok := t.links[c.id]
	if !ok {
		return nil, l, refuse(NotLinked, "", "is not a trace of an experiment over this dataset: it is of another dataset, "+
			"was run again, its link has not arrived yet, or it is of production (for which there is --queue)")
	}
	item := t.items[l.item]
	if item == nil {
		return nil, l, refuse(NotLinked, "", "the item %s of the run %s is archived or gone, and stays so", l.item, l.run)
	}
	return item, l, nil
}

// findDoubt returns the newest Doubt about the item and its time, or nil. The scores are sorted
// newest first.
func findDoubt(scores []langfuse.Score, name, item string) (*Doubt, time.Time) {
	for _, s := range scores {
		var doubt Doubt
		if s.Name == DoubtScore && json.Unmarshal(s.Metadata, &doubt) == nil && doubt.Dataset == name && doubt.Item == item {
			return &doubt, s.Timestamp
		}
	}
	return nil, time.Time{}
}

// writeChanged writes each changed item to TraceConfig.Out once, sorted by id.
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

// DoubtScore is the name of the score that experiment audit adds to a trace with doubtful gold
// when it puts the trace into a queue: a number from 0 to 1 with a Doubt as metadata.
const DoubtScore = "gold_doubt"

// Doubt is the metadata of a DoubtScore. It names the item, its gold, and the findings that make
// the gold doubtful.
type Doubt struct {
	Dataset  string   `json:"dataset"`
	Item     string   `json:"item"`
	Run      string   `json:"run"`
	Gold     string   `json:"gold"`     // dataset.GoldHash
	Findings []string `json:"findings"` // their keys
}

// The verdicts of a Review.
const (
	Corrected = "corrected"
	Confirmed = "confirmed"
)

// Review is a person's verdict on the gold of an item: an element of the list "review" in the
// item's metadata.
type Review struct {
	Verdict  string    `json:"verdict"` // Corrected or Confirmed
	Gold     string    `json:"gold"`    // dataset.GoldHash of the gold that the person looked at
	Findings []string  `json:"findings,omitempty"`
	At       time.Time `json:"at"`
	By       string    `json:"by,omitempty"` // the person, if known
	Trace    string    `json:"trace,omitempty"`
	Run      string    `json:"run,omitempty"`
	Queue    string    `json:"queue,omitempty"`
}

// Reviews returns the reviews in an item's metadata. It skips elements that are not reviews.
func Reviews(metadata json.RawMessage) []Review {
	var m struct{ Review []json.RawMessage }
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

// lackReview reports whether a list of reviews lacks one of another list.
func lackReview(list, other []Review) bool {
	return slices.ContainsFunc(other, func(r Review) bool {
		return !slices.ContainsFunc(list, func(own Review) bool {
			return own.Verdict == r.Verdict && own.Gold == r.Gold && own.At.Equal(r.At) && own.Trace == r.Trace
		})
	})
}

// keepReviews gives an item of a trace the evidence of the stored item with its id if it has none of
// its own, the reviews of it, and its gold unless the trace was corrected after the last review: a
// later yes to the trace does not say which gold was looked at. It refuses a trace that has an item with
// another id in the dataset: of another observation, or under another prefix.
func (t *traceSeeder) keepReviews(out *mappedItem) (err error) {
	id := t.cfg.IDPrefix + out.item.ID
	other := t.seeder.bySource[out.item.SourceTraceID]
	if _, known := t.seeder.existing[id]; !known && other.ID != "" {
		return refuse(SecondItem, "", "the dataset has the item %s of this trace (observation %q), and this would be %s "+
			"(observation %q): nothing is changed; to replace it, experiment seed --dataset %s --archive %[1]s, then the "+
			"same again", other.ID, other.SourceObservationID, id, out.item.SourceObservationID, t.cfg.Dataset)
	}
	stored, found := t.seeder.reviewed[id]
	keepEvidence := out.evidence.Kind == Unvalidated && other.ID == id && other.Metadata != nil
	if !found && !keepEvidence {
		return nil
	}
	var old, fields map[string]json.RawMessage
	_, _ = json.Unmarshal(stored.Metadata, &old), json.Unmarshal(out.item.Metadata, &fields) // both are objects
	if keepEvidence {
		fields[evidenceKey] = other.Metadata
	}
	if !found {
		out.item.Metadata, err = t.mapper.canonical("metadata", fields)
		return err
	}
	fields[reviewKey] = old[reviewKey]
	last := slices.MaxFunc(Reviews(stored.Metadata), func(a, b Review) int { return a.At.Compare(b.At) })
	if out.item.Metadata, err = t.mapper.canonical("metadata", fields); err != nil || out.correctedAt.After(last.At) {
		return err
	}
	gold := string(storedForm(stored.Expected))
	if t.cfg.Redaction != nil {
		original := out.original
		original.Expected = stored.Expected
		redacted, _, err := t.cfg.Redaction.redactItem(original)
		if err != nil || string(storedForm(redacted.Expected)) != gold {
			return refuse(Unredacted, "", "the reviewed gold of the item %s is kept, and holds what the redaction takes out: "+
				"nothing is changed; write the item with --export, and seed it with --file and --redact", id)
		}
	}
	if gold != string(storedForm(out.item.Expected)) {
		out.warn(KeptField, "expectedOutput", "keeps the gold that a person %s in %s at %s; "+
			"only a later correction of the trace replaces it", last.Verdict, cmp.Or(last.Queue, "an audit"),
			last.At.Format(time.RFC3339))
	}
	out.item.Expected = stored.Expected
	return nil
}

// WithReview appends a review to the list in an item's metadata. It returns an error if the
// metadata are not an object or their "review" is not a list.
func WithReview(metadata json.RawMessage, review Review) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	var list []json.RawMessage
	err := json.Unmarshal(orDefault(metadata, json.RawMessage("{}")), &fields)
	if err == nil {
		err = json.Unmarshal(orDefault(fields[reviewKey], json.RawMessage("[]")), &list)
	}
	if err != nil {
		return nil, fmt.Errorf("the metadata are not an object with a list of reviews, to which one could be added: %w", err)
	}
	reviews := append(cli.Each(list, func(raw json.RawMessage) any { return raw }), review)
	if fields[reviewKey], err = textutil.MarshalJSON(reviews); err != nil {
		return nil, err
	}
	return textutil.MarshalJSON(fields)
}
