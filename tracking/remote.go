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
)

// Remote is a run as Langfuse has it, for when there is no run file. Of each outcome
// it has what the run file has but its calls, warnings, the comments of its scores and
// how they came about; Unchecked tells what else is not known.
type Remote struct {
	Where  string         // for a person
	Header outcome.Header // as far as the run's metadata says
	Footer outcome.Footer // Complete only if the run's own scores say so
	// Outcomes are the newest attempt of every item and trial, in order of the
	// item's id, then of the trial.
	Outcomes []outcome.Outcome
	// Unchecked says what cannot be checked of such a run.
	Unchecked []string
}

// maxTrials bounds how many trials of a run are looked for.
const maxTrials = 100

// ReadRun reads a run by the names of its dataset and its own, with its further
// trials. Outcomes are those that their root spans record. Where a span records
// none, being of an older version or of another program, they are made of the scores
// of its trace: those that people gave are left out, of several of one name the
// newest counts. There an item failed whose error score is 1, or whose root has level
// ERROR; Langfuse has no scores of it, so that every score of the run counts as 0,
// wherever the run that it is compared with defines it.
//
// v4 is asked for 50 items at once, v3 for one, eight requests being under way.
//
// Errors: langfuse.ErrNotFound for an unknown dataset or run; those of the
// client. Nothing is written.
func ReadRun(ctx context.Context, site Site, dataset, name string) (Remote, error) {
	found, err := site.Client.GetDataset(ctx, dataset)
	if err != nil {
		return Remote{}, err
	}
	r := remoteReader{Site: site, ref: langfuse.RunRef{DatasetID: found.ID, DatasetName: dataset, Name: name}}
	run, err := r.find(ctx, name)
	if err != nil {
		return Remote{}, err
	}
	r.Where = fmt.Sprintf("read from Langfuse %s, run %s", site.Client.BaseURL(), run.ID)
	r.Header = headerFrom(run, outcome.Dataset{ID: found.ID, Name: dataset})
	r.Footer.Status = outcome.Complete
	for trial := 1; err == nil && trial <= maxTrials; trial++ {
		r.Header.Trials = trial
		if err = r.read(ctx, run, trial); err == nil {
			run, err = r.find(ctx, RunName(r.Header, trial+1))
		}
	}
	if err != nil && !errors.Is(err, langfuse.ErrNotFound) {
		return Remote{}, err
	}
	r.finish()
	return r.Remote, nil
}

// remoteReader gathers a run.
type remoteReader struct {
	Site
	Remote
	ref  langfuse.RunRef
	view langfuse.View
	// unrecorded are those of the outcomes that are made of scores, by place.
	unrecorded []int
}

// find looks for a run, and keeps the view that has it.
func (r *remoteReader) find(ctx context.Context, name string) (run langfuse.Run, err error) {
	ref := r.ref
	ref.Name = name
	run, r.view, err = r.Site.find(ctx, ref)
	return run, err
}

// read reads one trial.
func (r *remoteReader) read(ctx context.Context, run langfuse.Run, trial int) error {
	ref := r.ref
	ref.Name, ref.ID = run.Name, run.ID
	items := map[string]langfuse.RunItem{}
	for item, err := range r.Client.ListRunItems(ctx, r.Server, r.view, ref) {
		if err != nil {
			return err
		}
		if known, there := items[item.ItemID]; !there || item.Time.After(known.Time) {
			items[item.ItemID] = item // the newest attempt
		}
	}
	byTrace := map[string][]string{} // the items of those traces that are to come
	for id, item := range items {
		byTrace[item.TraceID] = append(byTrace[item.TraceID], id)
	}
	var others []string // traces with scores alone
	first := len(r.unrecorded)
	add := func(trace string, root langfuse.Observation) {
		for _, id := range byTrace[trace] {
			o, ok := recorded(root, id, trial)
			if !ok {
				o.Item, o.Output = id, root.Output
				others, r.unrecorded = append(others, trace), append(r.unrecorded, len(r.Outcomes))
			}
			r.Outcomes = append(r.Outcomes, o)
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
	scores, err := r.scores(ctx, others)
	if err != nil {
		return err
	}
	for _, place := range r.unrecorded[first:] {
		o := &r.Outcomes[place]
		item := items[o.Item]
		*o = outcomeFrom(item, trial, newestByName(scores[item.TraceID]), o.Output)
	}
	return r.complete(ctx, ref, trial, len(items))
}

// newestByName returns those of the scores that programs set, the newest of each name.
func newestByName(scores []langfuse.Score) map[string]langfuse.Score {
	newest := map[string]langfuse.Score{}
	for _, s := range scores {
		known, there := newest[s.Name]
		later := cmp.Or(s.Timestamp.Compare(known.Timestamp), cmp.Compare(s.ID, known.ID)) > 0
		if byProgram(s) && (!there || later) {
			newest[s.Name] = s
		}
	}
	return newest
}

// complete notes whether the scores on the run say that all its items are there.
func (r *remoteReader) complete(ctx context.Context, ref langfuse.RunRef, trial, items int) error {
	said := map[string]float64{}
	for s, err := range r.Client.ListRunScores(ctx, r.Server, ref) {
		if err != nil {
			return err
		}
		if n, ok := s.Value.Number(); ok {
			said[s.Name] = n
		}
		r.Footer.Ended = latest(r.Footer.Ended, s.Timestamp)
	}
	planned, ok := said[itemsPlanned]
	r.Footer.Planned += max(items, int(min(planned, 1<<31)))
	switch {
	case r.Footer.Status != outcome.Complete: // says why a trial before is not
	case !ok:
		r.Footer.Status = outcome.Status(fmt.Sprintf("not known: trial %d has no score %s", trial, itemsPlanned))
	case int(planned) != items || int(said[itemsScored]+said[itemsFailed]) != items:
		r.Footer.Status = outcome.Status(fmt.Sprintf("%d of %d items are in Langfuse", items, int(planned)))
	}
	return nil
}

// headerFrom reads what Metadata wrote. What is not there, or in another form,
// stays empty.
func headerFrom(run langfuse.Run, dataset outcome.Dataset) outcome.Header {
	said := langfuse.Texts(run.Metadata)
	h := outcome.Header{Name: run.Name, Dataset: dataset, Trials: 1, Description: run.Description, Started: run.Time}
	for key, text := range texts(&h) {
		*text = said[key]
	}
	h.Scorer.Options = allOptions(h.Scorer.Version, said["scorer_options"])
	if custom := said["evaluators"]; custom != "" && json.Unmarshal([]byte(custom), &h.Scorer.Custom) != nil {
		h.Scorer.Custom = nil
	}
	h.System.Temperature, h.System.TopP = parsed(said["temperature"]), parsed(said["top_p"])
	h.System.Prompt.Version, _ = strconv.Atoi(said["prompt_version"])
	if h.System.Prompt.Name == "" {
		h.System.Prompt = outcome.Prompt{}
	}
	for _, key := range FixedKeys() {
		delete(said, key)
	}
	h.Metadata = said
	return h
}

// parsed is a number of the metadata; nil where there is none.
func parsed(text string) *float64 {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return &v
	}
	return nil
}

// outcomeFrom makes an outcome of an item of a run, the output of its root span and
// the scores of its trace.
func outcomeFrom(item langfuse.RunItem, trial int, scores map[string]langfuse.Score, output json.RawMessage) outcome.Outcome {
	o := outcome.Outcome{Item: item.ItemID, Trial: trial, Attempt: 1, Started: item.Time, Ended: item.Time}
	failed, _ := scores[outcome.ErrorScore].Value.Number()
	if failed == 1 || item.Level == "ERROR" {
		comment := scores[outcome.ErrorScore].Comment
		class, message, _ := strings.Cut(comment, ": ")
		if !slices.Contains(outcome.Classes(), outcome.Class(class)) { // other people's words, or none
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
	held := behindScore(scores[outcome.ErrorScore])
	for _, key := range slices.Sorted(maps.Keys(held)) {
		name, isWeight := strings.CutPrefix(key, heldWeight)
		if _, there := scores[name]; isWeight && o.Failed() && !there {
			o.Scores = append(o.Scores, outcome.Score{Name: name, Reason: itemFailed, Weight: weightOf(held, key)})
		}
	}
	return o
}

// scoreFrom reads what builder.scores wrote; a text is not a score here.
func scoreFrom(s langfuse.Score) (outcome.Score, bool) {
	value, ok := s.Value.Number()
	out := outcome.Score{Name: s.Name, Value: &value, Boolean: s.Type == langfuse.ScoreBoolean, Comment: s.Comment}
	behind := behindScore(s)
	num, isNum := behind["numerator"]
	den, isDen := behind["denominator"]
	if isNum && isDen && isCount(num) && isCount(den) {
		out.Ratio = &outcome.Ratio{Num: int64(num), Den: int64(den)}
	}
	out.Weight = weightOf(behind, weightKey)
	return out, ok
}

func isCount(n float64) bool { return n >= 0 && n < 1<<53 && n == math.Trunc(n) }

// behindScore returns the numbers in the metadata of a score, which servers give as
// numbers or as their texts; none where it is not an object.
func behindScore(s langfuse.Score) map[string]float64 {
	numbers := map[string]float64{}
	for key, text := range langfuse.Texts(s.Metadata) {
		if n, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(n) <= math.MaxFloat64 { // no NaN
			numbers[key] = n
		}
	}
	return numbers
}

// weightOf returns a weight; nil where there is none.
func weightOf(behind map[string]float64, key string) *float64 {
	weight, ok := behind[key]
	if !ok || weight < 0 {
		return nil
	}
	return &weight
}

// itemFailed is why a score has no value.
const itemFailed = "the item failed"

// finish sorts the outcomes, and lists with those that failed, and are not
// recorded, the scores that the run has elsewhere, without a value: so they count as 0.
// It says what is not known of the run.
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
			if _, there := outcome.Lookup(o.Scores, name); !there {
				o.Scores = append(o.Scores, outcome.Score{Name: name, Reason: itemFailed})
			}
		}
	}
	slices.SortStableFunc(r.Outcomes, func(a, b outcome.Outcome) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial))
	})
	r.Unchecked = []string{
		"it was read from Langfuse: that its items have the same content, only the fingerprint in its metadata says",
		"what was matched is not recorded there",
	}
	if r.Header.Harness == "" {
		r.Unchecked = append(r.Unchecked, "selection, harness and evaluators are not recorded there")
	}
	if n := len(r.unrecorded); n > 0 {
		r.Unchecked = append(r.Unchecked, fmt.Sprintf("of %d of %s Langfuse has scores alone: complete counts, counts by type, "+
			"cost and latency are not known", n, textutil.Counted(len(r.Outcomes), "result")))
	}
}

// recorded reads the outcome of an item from its root span; ok is false where none
// is recorded there, or that of another item.
func recorded(root langfuse.Observation, item string, trial int) (o outcome.Outcome, ok bool) {
	raw := langfuse.Texts(root.Metadata)[recordKey] // a text, of which v3 gives the JSON that it holds
	if json.Unmarshal([]byte(raw), &o) != nil || o.Item != item {
		return outcome.Outcome{}, false
	}
	o.Trial = trial
	if !o.Failed() {
		o.Output = root.Output
		return o, true
	}
	var shown struct{ Error outcome.Failure } // in place of an output
	if json.Unmarshal(root.Output, &shown) != nil || shown.Error.Message == "" {
		shown.Error = outcome.Failure{Class: o.Class}
	}
	o.Failure = knownFailure(shown.Error.Class, shown.Error.Message)
	o.Class = o.Failure.Class
	return o, true
}

// knownFailure is a failure of a class that there is; other words are a message.
func knownFailure(class outcome.Class, message string) *outcome.Failure {
	if class == outcome.OK || !slices.Contains(outcome.Classes(), class) {
		class = outcome.Provider
	}
	return &outcome.Failure{Class: class, Message: cmp.Or(message, "Langfuse does not say why")}
}
