package tracking

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// Remote is a run read from Langfuse, for use without a run file. Its outcomes equal those
// of the run file, but without calls, warnings, the comments of scores and explanations.
// Unchecked lists what else is unknown.
type Remote struct {
	Where  string         // describes the source for a person
	Header outcome.Header // as far as it is in the metadata of the run
	Footer outcome.Footer // Complete only according to the scores of the run
	// Outcomes are the newest attempts of every item and trial, sorted by item id, then by
	// trial.
	Outcomes []outcome.Outcome
	// Unchecked lists the properties of the run that cannot be checked.
	Unchecked []string
}

// ReadRun reads all trials of a run by the names of its dataset and of the run. It reads each
// outcome from the metadata of its root span. If an older version or another program wrote
// the span without that metadata, ReadRun builds the outcome from the scores of the trace:
// it ignores scores by people, and takes the newest of several scores with one name. An
// item built that way failed if its error score is 1 or its root has the level ERROR.
// Langfuse has no other scores of a failed item, so it gets all scores of the run without a
// value, and they count as 0 in a comparison.
//
// A request reads 50 items from v4 and one item from v3, with eight requests under way.
//
// The error for an unknown dataset or run matches langfuse.ErrNotFound; other errors are
// those of the client. ReadRun writes nothing.
func ReadRun(ctx context.Context, site Site, dataset, name string) (Remote, error) {
	stored, err := site.Client.GetDataset(ctx, dataset)
	if err != nil {
		return Remote{}, err
	}
	r := remoteReader{Site: site}
	ref := langfuse.RunRef{DatasetID: stored.ID, DatasetName: dataset, Name: name}
	run, view, err := site.find(ctx, ref)
	if err != nil {
		return Remote{}, err
	}
	r.Where = fmt.Sprintf("read from Langfuse %s, run %s", site.Client.BaseURL(), run.ID)
	r.Header = headerFrom(run, outcome.Dataset{ID: stored.ID, Name: dataset})
	r.Footer.Status = outcome.Complete
	for trial := 1; err == nil && trial <= runstore.MaxTrials; trial++ {
		r.Header.Trials = trial
		ref.ID = run.ID
		if err = r.read(ctx, view, ref, trial); err == nil {
			ref.ID, ref.Name = "", RunName(r.Header, trial+1)
			run, view, err = site.find(ctx, ref)
		}
	}
	if err != nil && !errors.Is(err, langfuse.ErrNotFound) {
		return Remote{}, err
	}
	r.finish()
	return r.Remote, nil
}

// remoteReader collects a run for ReadRun.
type remoteReader struct {
	Site
	Remote
	// unrecorded holds the indexes of the outcomes that are built from scores.
	unrecorded []int
	// mixed is true if two runs have the name: their items cannot be told apart.
	mixed bool
}

// read reads one trial, as a view shows it.
func (r *remoteReader) read(ctx context.Context, view langfuse.View, ref langfuse.RunRef, trial int) error {
	byTrace := map[string][]langfuse.RunItem{} // of the traces that are not yet read
	for item, err := range r.Client.ListRunItems(ctx, r.Server, view, ref) {
		if err != nil {
			return err
		}
		byTrace[item.TraceID] = append(byTrace[item.TraceID], item)
	}
	newest := map[string]attempt{} // by item
	add := func(trace string, root langfuse.Observation) {
		for _, item := range byTrace[trace] {
			item.Level = cmp.Or(item.Level, root.Level)
			a := attempt{item: item}
			if a.outcome, a.recorded = decodeRecord(root, item.ItemID, trial); !a.recorded {
				a.outcome.Output = root.Output
			}
			known, there := newest[item.ItemID]
			if a.recorded && known.recorded && a.outcome.Attempt == known.outcome.Attempt && trace != known.item.TraceID {
				r.mixed = true
			}
			if !there || a.follows(known) {
				newest[item.ItemID] = a
			}
		}
		delete(byTrace, trace)
	}
	parts := langfuse.TraceParts{IO: true, Metadata: true, ExpandMetadata: []string{recordKey}, Roots: true}
	for trace, err := range r.Client.ReadTraces(ctx, r.Server.Capabilities, slices.Sorted(maps.Keys(byTrace)), parts) {
		if err != nil {
			return err
		}
		root, _ := trace.Root()
		add(trace.ID, root)
	}
	for trace := range byTrace {
		add(trace, langfuse.Observation{})
	}
	var unrecordedTraces []string // traces that have only scores
	for _, a := range newest {
		if !a.recorded {
			unrecordedTraces = append(unrecordedTraces, a.item.TraceID)
		}
	}
	scores, err := r.readScores(ctx, unrecordedTraces)
	if err != nil {
		return err
	}
	for _, a := range newest {
		if !a.recorded {
			a.outcome = outcomeFrom(a.item, trial, newestByName(scores[a.item.TraceID]), a.outcome.Output)
			r.unrecorded = append(r.unrecorded, len(r.Outcomes))
		}
		r.Outcomes = append(r.Outcomes, a.outcome)
	}
	return r.complete(ctx, ref, trial, len(newest))
}

// attempt is an attempt of an item, as Langfuse shows it.
type attempt struct {
	item     langfuse.RunItem
	outcome  outcome.Outcome // only its output if it is not recorded
	recorded bool
}

// follows reports whether a is a later attempt than b. Clocks may have been changed in between.
func (a attempt) follows(b attempt) bool {
	order := a.item.Time.Compare(b.item.Time)
	if a.recorded && b.recorded {
		order = cmp.Or(cmp.Compare(a.outcome.Attempt, b.outcome.Attempt), order)
	}
	return order > 0
}

// newestByName returns the newest score of each name among those that programs wrote.
func newestByName(scores []langfuse.Score) map[string]langfuse.Score {
	newest := map[string]langfuse.Score{}
	for _, s := range scores {
		known, seen := newest[s.Name]
		later := cmp.Or(s.Timestamp.Compare(known.Timestamp), cmp.Compare(s.ID, known.ID)) > 0
		if fromAPI(s) && (!seen || later) {
			newest[s.Name] = s
		}
	}
	return newest
}

// complete sets the footer's status, according to whether the scores on the run agree with
// the number of items that Langfuse has.
func (r *remoteReader) complete(ctx context.Context, ref langfuse.RunRef, trial, items int) error {
	scores := map[string]float64{}
	for s, err := range r.Client.ListRunScores(ctx, r.Server, ref) {
		if err != nil {
			return err
		}
		if n, ok := s.Value.Number(); ok {
			_, again := scores[s.Name]
			own := s.Name == itemsPlanned || s.Name == scoreName(r.Header.Scorer.Primary)+asZeroSuffix
			r.mixed = r.mixed || again && own && fromAPI(s)
			scores[s.Name] = n
		}
		r.Footer.Ended = latest(r.Footer.Ended, s.Timestamp)
	}
	planned, ok := scores[itemsPlanned]
	r.Footer.Planned += max(items, int(min(planned, 1<<31)))
	switch {
	case r.Footer.Status != outcome.Complete: // an earlier trial is incomplete
	case r.mixed:
		r.Footer.Status = "not known: two runs have this name there, and their items are mixed"
	case !ok:
		r.Footer.Status = outcome.Status(fmt.Sprintf("not known: trial %d has no score %s", trial, itemsPlanned))
	case int(planned) != items || int(scores[itemsScored]+scores[itemsFailed]) != items:
		r.Footer.Status = outcome.Status(fmt.Sprintf("%d of %d items are in Langfuse", items, int(planned)))
	}
	return nil
}

// headerFrom returns the header that the metadata of a run describes; see Metadata. Missing
// and malformed values stay empty.
func headerFrom(run langfuse.Run, dataset outcome.Dataset) outcome.Header {
	metadata := langfuse.MetadataTexts(run.Metadata)
	h := outcome.Header{Name: run.Name, Dataset: dataset, Trials: 1, Description: run.Description, Started: run.Time}
	for key, text := range headerTexts(&h) {
		*text = metadata[key]
	}
	h.Scorer.Options, h.Scorer.OutputOnly = allOptions(h.Scorer.Version, metadata["scorer_options"]), []string{scoring.GroundedRate}
	if custom := metadata["evaluators"]; custom != "" && json.Unmarshal([]byte(custom), &h.Scorer.Custom) != nil {
		h.Scorer.Custom = nil
	}
	if from := metadata[RescoredFrom]; from != "" {
		h.Rescored = &outcome.Origin{Name: from}
	}
	for _, p := range h.System.Parameters.List() {
		p.Set(metadata[p.Name])
	}
	h.System.Prompt.Version, _ = strconv.Atoi(metadata["prompt_version"])
	if h.System.Prompt.Name == "" {
		h.System.Prompt = outcome.Prompt{}
	}
	for _, key := range FixedKeys() {
		delete(metadata, key)
	}
	h.Metadata = metadata
	return h
}

// outcomeFrom builds an outcome from an item of a run, the output of its root span and the
// scores of its trace.
func outcomeFrom(item langfuse.RunItem, trial int, scores map[string]langfuse.Score, output json.RawMessage) outcome.Outcome {
	o := outcome.Outcome{Item: item.ItemID, Trial: trial, Attempt: 1, Started: item.Time, Ended: item.Time}
	failed, _ := scores[outcome.ErrorScore].Value.Number()
	if failed == 1 || item.Level == "ERROR" {
		comment := scores[outcome.ErrorScore].Comment
		class, message, _ := strings.Cut(comment, ": ")
		if !slices.Contains(outcome.Classes(), outcome.Class(class)) { // a comment of another program, or none
			message = comment
		}
		o.Failure = knownFailure(outcome.Class(class), message)
		o.Class = o.Failure.Class
	} else {
		o.Output = output
	}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		if s, ok := scoreFrom(scores[name]); ok {
			o.Scores = append(o.Scores, s)
		}
	}
	numbers := metadataNumbers(scores[outcome.ErrorScore])
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		name, isWeight := strings.CutPrefix(key, missingWeight)
		if _, published := scores[name]; isWeight && o.Failed() && !published {
			o.Scores = append(o.Scores, outcome.Score{Name: name, Reason: itemFailed, Weight: weightOf(numbers, key)})
		}
	}
	return o
}

// scoreFrom is the inverse of scoreRequests. It returns false for a score that is a text.
func scoreFrom(s langfuse.Score) (outcome.Score, bool) {
	value, ok := s.Value.Number()
	out := outcome.Score{Name: s.Name, Value: &value, Boolean: s.Type == langfuse.ScoreBoolean, Comment: s.Comment}
	numbers := metadataNumbers(s)
	num, isNum := numbers["numerator"]
	den, isDen := numbers["denominator"]
	if isNum && isDen && isCount(num) && isCount(den) {
		out.Ratio = &outcome.Ratio{Num: int64(num), Den: int64(den)}
	}
	out.Weight = weightOf(numbers, weightKey)
	return out, ok
}

func isCount(n float64) bool { return n >= 0 && n < 1<<53 && n == math.Trunc(n) }

// metadataNumbers returns the numbers in the metadata of a score, which servers return as
// numbers or as strings. The result is empty if the metadata is not an object.
func metadataNumbers(s langfuse.Score) map[string]float64 {
	numbers := map[string]float64{}
	for key, text := range langfuse.MetadataTexts(s.Metadata) {
		if n, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(n) <= math.MaxFloat64 { // no NaN
			numbers[key] = n
		}
	}
	return numbers
}

// weightOf returns the weight at a key, or nil if it is missing or negative.
func weightOf(numbers map[string]float64, key string) *float64 {
	weight, ok := numbers[key]
	if !ok || weight < 0 {
		return nil
	}
	return &weight
}

// itemFailed is the reason of a score without a value.
const itemFailed = "the item failed"

// finish sorts the outcomes and sets Unchecked. To failed outcomes that were built from
// scores it adds the scores of the other outcomes without a value, so that they count as 0.
func (r *remoteReader) finish() {
	names := map[string]bool{}
	for _, o := range r.Outcomes {
		for _, s := range o.Scores {
			names[s.Name] = true
		}
	}
	delete(names, outcome.ErrorScore)
	for _, i := range r.unrecorded {
		o := &r.Outcomes[i]
		if !o.Failed() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if _, exists := outcome.Lookup(o.Scores, name); !exists {
				o.Scores = append(o.Scores, outcome.Score{Name: name, Reason: itemFailed})
			}
		}
	}
	slices.SortStableFunc(r.Outcomes, func(a, b outcome.Outcome) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial))
	})
	r.Unchecked = []string{
		"it was read from Langfuse: only the fingerprint in its metadata shows that its items have the same content",
		"matches are not recorded there",
	}
	if r.Header.Harness == "" {
		r.Unchecked = append(r.Unchecked, "selection, harness and evaluators are not recorded there")
	}
	if n := len(r.unrecorded); n > 0 {
		r.Unchecked = append(r.Unchecked, textutil.Countf("of %d of %s Langfuse has scores alone: complete counts, counts by type, "+
			"cost and latency are not known", n, textutil.Counted(len(r.Outcomes), "result")))
	}
}

// decodeRecord returns the outcome in the metadata of a root span. ok is false if there is
// none, or if it belongs to another item.
func decodeRecord(root langfuse.Observation, item string, trial int) (o outcome.Outcome, ok bool) {
	raw := langfuse.MetadataTexts(root.Metadata)[recordKey] // v3 returns the JSON in the string, not the string
	if json.Unmarshal([]byte(raw), &o) != nil || o.Item != item {
		return outcome.Outcome{}, false
	}
	o.Trial = trial
	if !o.Failed() {
		o.Output = root.Output
		return o, true
	}
	var output struct{ Error outcome.Failure } // as builder.output returns it
	_ = json.Unmarshal(root.Output, &output)   // without it, the class is that of the record
	o.Failure = knownFailure(cmp.Or(output.Error.Class, o.Class), output.Error.Message)
	o.Class = o.Failure.Class
	return o, true
}

// knownFailure returns a failure with a valid class and a message. It replaces an unknown
// class by outcome.Provider.
func knownFailure(class outcome.Class, message string) *outcome.Failure {
	if class == outcome.OK || !slices.Contains(outcome.Classes(), class) {
		class = outcome.Provider
	}
	return &outcome.Failure{Class: class, Message: cmp.Or(message, "Langfuse does not say why")}
}
