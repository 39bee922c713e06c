package gold

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/dataset"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/seed"
	"extraction-experiment/tracking"
)

// The verdicts of a decision.
const (
	accepted = "accepted" // the gold is wrong
	rejected = "rejected" // the gold is right
)

// decisions is the file that the web page of an audit saves.
type decisions struct {
	Decisions []decision
	findings  map[string]bool // keys of the decided findings
}

type decision struct{ Item, Finding, Gold, Verdict string }

// readDecisions reads the files of --decisions, of one or several people. A finding that two of them
// decide alike counts once.
func readDecisions(c *urfave.Context) (all decisions, err error) {
	all.findings = map[string]bool{}
	earlier := map[string]string{} // verdict and file by finding
	var problems []error
	for _, path := range c.StringSlice("decisions") {
		one, err := settings.ReadFile(c.Context, path, "the decisions", parseDecisions)
		problems = append(problems, err)
		for _, d := range one.Decisions {
			if was := earlier[d.Finding]; was == "" {
				all.Decisions, all.findings[d.Finding] = append(all.Decisions, d), true
				earlier[d.Finding] = d.Verdict + " in " + path
			} else if !strings.HasPrefix(was, d.Verdict) {
				problems = append(problems, cli.Usage("finding %q of item %q is decided twice: it is %s and %s in %s; "+
					"let the two agree", d.Finding, shortID(d.Item), was, d.Verdict, path))
			}
		}
	}
	return all, errors.Join(problems...)
}

// parseDecisions parses and checks a file of decisions.
func parseDecisions(raw []byte) (d decisions, err error) {
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, cli.Usage("it is not a file of decisions, as the page of experiment audit --html saves it: %w", err)
	}
	var problems textutil.Problems
	for _, decided := range d.Decisions {
		problems.Add(decided.Verdict != accepted && decided.Verdict != rejected,
			"finding %q: the verdict %q is neither %s nor %s", decided.Finding, decided.Verdict, accepted, rejected)
	}
	problems.Add(len(d.Decisions) == 0, "it holds no decision")
	return d, cli.WithCode(cli.ExitUsage, errors.Join(problems...))
}

// currentGold is the current gold of an item in the dataset.
type currentGold struct {
	hash      string   // of input and expected output
	gold      string   // hash of the expected output
	confirmed []string // keys of the findings that people rejected for this gold
	metadata  json.RawMessage
}

// readDataset reads the current gold of the dataset: from Langfuse, or for a dataset in a file from
// path, without path from the file of its name in this folder, and without that from the run. It is an
// error if path is neither a file nor the name of the dataset, and if one of outputs would replace that file.
// Memory: a hash for each item, and metadata if it is not in Langfuse.
func (a *auditor) readDataset(ctx context.Context, path string, outputs ...string) error {
	name := a.header.Dataset.Name
	path = cmp.Or(path, name)
	info, err := os.Stat(path)
	isFile := a.header.Dataset.ID == "" && err == nil && !info.IsDir()
	if path != name && !isFile {
		return cli.Usage("--dataset: %s is not the dataset %s of the runs, nor a file of it", path, name)
	}
	items := stats.Map(a.runs[0].Reader.Items(ctx), func(item runstore.Item) dataset.Item { return item.Item })
	if a.header.Dataset.ID != "" {
		if err := a.connect(ctx); err != nil {
			return err
		}
		items = stats.Map(seed.StoredItems(ctx, a.langfuse.Client, name), func(item langfuse.DatasetItem) dataset.Item {
			return dataset.Item{ID: item.ID, Input: item.Input, Expected: item.ExpectedOutput, Metadata: item.Metadata}
		})
	} else if isFile {
		for _, output := range outputs {
			if err := runs.CanWrite(output, path); err != nil {
				return err
			}
		}
		items = stats.Map(dataset.ReadFile(ctx, path), func(item dataset.Located) dataset.Item { return item.Item })
	}
	a.gold = map[string]currentGold{}
	for item, err := range items {
		if err != nil {
			return cli.WithCode(cli.ExitUsage, fmt.Errorf("reading the dataset %s as it is now: %w", textutil.Line(name), err))
		}
		now := newCurrentGold(item.Expected, item.Metadata)
		if now.hash, err = dataset.Hash(item); err != nil {
			return cli.WithCode(cli.ExitUsage, err)
		}
		if a.langfuse != nil {
			now.metadata = nil // applyDecisions reads it again
		}
		a.gold[item.ID] = now
	}
	return nil
}

func newCurrentGold(expected, metadata json.RawMessage) currentGold {
	s := currentGold{gold: dataset.GoldHash(expected), metadata: metadata}
	for _, review := range seed.Reviews(metadata) {
		if review.Verdict == seed.Confirmed && review.Gold == s.gold {
			s.confirmed = append(s.confirmed, review.Findings...)
		}
	}
	return s
}

// writeCorrected writes the items with decisions to a file. It applies the accepted findings and
// records the rejected ones as confirmations.
func (a *auditor) writeCorrected(ctx context.Context, path string, d decisions, result harness.AuditResult) error {
	found := map[string]harness.Doubt{}
	for _, f := range result.Findings {
		found[f.Key] = f
	}
	var problems []error
	byItem, count := map[string]map[string][]harness.Doubt{}, map[string]int{} // the decided findings, by verdict
	for _, decided := range d.Decisions {
		f, known := found[decided.Finding]
		if !known || f.Gold != decided.Gold {
			problems = append(problems, fmt.Errorf("finding %q of item %q is not one of this audit: its gold has changed, it was "+
				"already decided, its item is archived, or other runs were audited", decided.Finding, shortID(decided.Item)))
			continue
		}
		if byItem[f.Item] == nil {
			byItem[f.Item] = map[string][]harness.Doubt{}
		}
		byItem[f.Item][decided.Verdict] = append(byItem[f.Item][decided.Verdict], f)
		count[decided.Verdict]++
	}
	if len(problems) > 0 {
		return cli.Usage("%w\nnothing is written: write the page again with --html; in the browser that made the decisions "+
			"it still has all that hold, to be saved again", errors.Join(problems...))
	}
	err := writeItems(path, func(out *dataset.Writer) error {
		for _, id := range slices.Sorted(maps.Keys(byItem)) {
			item, err := a.applyDecisions(ctx, id, byItem[id][accepted], byItem[id][rejected])
			if err == nil {
				err = out.Write(item)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		fmt.Fprintln(a.env.Stderr, textutil.Countf("%s: %s, %s accepted, %d rejected", path,
			textutil.Counted(len(byItem), "item"), textutil.Counted(count[accepted], "finding"), count[rejected]))
	}
	return err
}

// applyDecisions returns an item with what was accepted and rejected applied.
func (a *auditor) applyDecisions(ctx context.Context, id string, accepted, rejected []harness.Doubt) (dataset.Item, error) {
	full, err := a.runs[0].Item(ctx, id)
	if err != nil {
		return dataset.Item{}, err
	}
	item := full.Item
	item.Metadata = a.gold[id].metadata
	if a.langfuse != nil { // other tools may have changed the metadata
		now, err := a.langfuse.Client.GetDatasetItem(ctx, id)
		if err != nil {
			return item, err
		}
		item.Metadata, item.SourceTraceID, item.SourceObservationID = now.Metadata, now.SourceTraceID, now.SourceObservationID
	}
	at := time.Now().UTC().Truncate(time.Millisecond)
	review := func(verdict string, findings []harness.Doubt) {
		if err == nil && len(findings) > 0 {
			keys := cli.Each(findings, func(d harness.Doubt) string { return d.Key })
			item.Metadata, err = seed.WithReview(item.Metadata,
				seed.Review{Verdict: verdict, Gold: dataset.GoldHash(item.Expected), Findings: keys, At: at, Run: a.header.Name})
		}
	}
	review(seed.Corrected, accepted)
	if err == nil && len(accepted) > 0 {
		item.Expected, err = harness.Corrected(item.Expected, accepted)
		if lost := harness.LostEnds(full.Expected, item.Expected); err == nil && len(lost) > 0 {
			fmt.Fprintf(a.env.Stderr, "warning: item %s: relationships still name what is taken out (%s): take them out "+
				"too, in another decision or in the file\n", shortID(id), textutil.First(cli.Each(lost, textutil.Line), 5))
		}
	}
	review(seed.Confirmed, rejected) // of the gold with the corrections
	if err != nil {
		return item, cli.Usage("item %q: %w", shortID(id), err)
	}
	return item, nil
}

// scoreConfigName is the name of the score configuration of a queue that openQueue creates, because
// the API requires one. People need not set this score; completing the item is enough.
const scoreConfigName = "gold_checked"

// queueItems adds the items of findings to an annotation queue, each as its trace in the newest run
// that has an extraction of it, with a comment and a score that state the doubt. It opens completed
// traces with new findings again, and changes nothing else in the queue, so it can be repeated. Two
// audits of this folder wait for each other, as both would add what neither saw in the queue; two of
// different folders do not, and may add a trace twice. An error with exit code 4 names the items that
// could not be queued.
func (a *auditor) queueItems(ctx context.Context, name string, create bool,
	findings []harness.Doubt) (*report.Queued, error) {
	if err := a.connect(ctx); err != nil {
		return nil, err
	}
	// Without a lock, in a folder that is missing or read-only, everything else works.
	if lock, err := files.Lock(ctx, filepath.Join(settings.Folder, "queue.lock")); err == nil {
		defer lock.Close()
	}
	client := a.langfuse.Client
	traces, err := a.newestTraces(ctx)
	if err != nil {
		return nil, err
	}
	queue, created, err := openQueue(ctx, client, name, create)
	if err != nil {
		return nil, err
	}
	completed := map[string]string{} // queue item by trace
	for item, err := range client.ListQueueItems(ctx, queue.ID, langfuse.QueueCompleted) {
		if err != nil {
			return nil, err
		}
		completed[item.ObjectID] = item.ID
	}
	out := &report.Queued{Name: queue.Name, Created: created}
	var ready, names []string
	var failed []error
	byItem := map[string][]harness.Doubt{}
	var items []string
	for _, d := range findings {
		if byItem[d.Item] == nil {
			items = append(items, d.Item)
		}
		byItem[d.Item] = append(byItem[d.Item], d)
	}
	for _, item := range items {
		trace := traces[item]
		if trace.run == nil {
			failed = append(failed, fmt.Errorf("item %q: no run in this Langfuse has an extraction of it", shortID(item)))
			continue
		}
		reopened, err := a.addToTrace(ctx, queue.ID, completed[trace.id], trace, byItem[item])
		api, answered := errors.AsType[*langfuse.APIError](err)
		switch {
		case err == nil:
			ready = append(ready, trace.id)
			out.Reopened += reopened
			if !slices.Contains(names, trace.run.Name) {
				names = append(names, trace.run.Name)
			}
		case answered && api.Status < 500 && !errors.Is(err, langfuse.ErrUnauthorized):
			failed = append(failed, fmt.Errorf("item %q: trace %s: %w", shortID(item), trace.id, err))
		default:
			return out, err
		}
	}
	out.Run = strings.Join(names, ", ")
	added, err := client.QueueTraces(ctx, queue.ID, ready)
	out.Added, out.Existing, out.Failed = len(added), len(ready)-len(added)-out.Reopened, len(failed)
	if err != nil {
		return out, err
	}
	if len(failed) > 0 {
		return out, cli.Errorf(cli.ExitFailures, "%d of %d items were not queued:\n%w", len(failed), len(failed)+len(ready), errors.Join(failed...))
	}
	return out, nil
}

// addToTrace adds the doubt to a trace. If the trace is completed in the queue, as this item of it,
// addToTrace first opens that again, or changes nothing if the trace had these findings by then.
// The order matters: a call that is cut off must open the item when it is repeated.
func (a *auditor) addToTrace(
	ctx context.Context, queue, completed string, trace itemTrace, findings []harness.Doubt,
) (reopened int, err error) {
	if client := a.langfuse.Client; completed != "" {
		var judged []string
		query := langfuse.ScoresQuery{TraceIDs: []string{trace.id}, Names: []string{seed.DoubtScore}}
		for score, err := range client.ReadScores(ctx, a.langfuse.Server.Capabilities, query) {
			if err != nil {
				return 0, err
			}
			var doubt seed.Doubt
			_ = json.Unmarshal(score.Metadata, &doubt) // other programs may have scores of this name
			judged = append(judged, doubt.Findings...)
		}
		if !slices.ContainsFunc(findings, func(d harness.Doubt) bool { return !slices.Contains(judged, d.Key) }) {
			return 0, nil
		}
		if err := client.ReopenQueueItem(ctx, queue, completed); err != nil {
			return 0, err
		}
		reopened = 1
	}
	return reopened, a.addDoubt(ctx, trace, findings)
}

// itemTrace is the trace that represents an item, and its run.
type itemTrace struct {
	id  string
	run *outcome.Header
}

// newestTraces returns for each item its trace in the newest run in this Langfuse that has an
// extraction of it.
func (a *auditor) newestTraces(ctx context.Context) (map[string]itemTrace, error) {
	var published []int
	for i, run := range a.runs {
		counts, err := run.Counts(ctx)
		if err != nil {
			return nil, err
		}
		if counts.Published > 0 && a.headers[i].Project == a.langfuse.Server.Project.ID {
			published = append(published, i)
		}
	}
	if len(published) == 0 {
		return nil, cli.Usage("none of the runs is in this Langfuse (%s), so there is no trace to look at: "+
			"experiment publish %s sends it there", a.langfuse.Client.BaseURL(), cli.Arguments(a.header.Name))
	}
	slices.SortStableFunc(published, func(i, j int) int { return a.headers[j].Started.Compare(a.headers[i].Started) })
	traces := map[string]itemTrace{}
	for _, i := range published { // a single run has its extractions in several trials
		for o, err := range a.runs[i].Reader.Outcomes(ctx, runstore.Query{Newest: true, Trial: min(1, len(a.runs)-1)}) {
			if err != nil {
				return nil, err
			}
			if traces[o.Item].run == nil && !o.Failed() {
				traces[o.Item] = itemTrace{tracking.TraceID(a.headers[i], o), &a.headers[i]}
			}
		}
	}
	return traces, nil
}

// openQueue returns the queue with a name. If it does not exist and create is set, openQueue
// creates it.
func openQueue(ctx context.Context, client *langfuse.Client, name string, create bool) (queue langfuse.AnnotationQueue, created bool, err error) {
	queue, err = client.GetAnnotationQueue(ctx, name)
	if !errors.Is(err, langfuse.ErrNotFound) {
		return queue, false, err
	}
	if !create {
		return queue, false, cli.Usage("%w; --create-queue creates it", err)
	}
	const task = "The gold of this item was looked at. Correct the output of the trace where gold is wrong, then complete the item."
	config := langfuse.ScoreConfig{Name: scoreConfigName, Type: langfuse.ScoreBoolean, Description: task}
	for c, err := range client.ListScoreConfigs(ctx) {
		if err != nil {
			return queue, false, err
		}
		if c.Name == scoreConfigName && c.Type == langfuse.ScoreBoolean && !c.Archived {
			config = c
		}
	}
	if config.ID == "" {
		if config, err = client.CreateScoreConfig(ctx, config); err != nil {
			return queue, false, err
		}
	}
	queue, err = client.CreateAnnotationQueue(ctx, langfuse.AnnotationQueue{Name: name, Description: task, ScoreConfigIDs: []string{config.ID}})
	return queue, true, err
}

// addDoubt adds the comment and the score to a trace. It does not write the same comment again, and
// the score of a trace replaces the previous one.
func (a *auditor) addDoubt(ctx context.Context, trace itemTrace, findings []harness.Doubt) error {
	client, h := a.langfuse.Client, trace.run
	doubt := seed.Doubt{Dataset: h.Dataset.Name, Item: findings[0].Item, Run: h.Name, Gold: findings[0].Gold}
	highest := 0.0
	var lines []string
	for _, d := range findings {
		doubt.Findings = append(doubt.Findings, d.Key)
		highest = max(highest, d.Doubt)
		lines = append(lines, fmt.Sprintf("%.2f %s: %s (%s)", d.Doubt, d.Kind, d.Change(), d.Reason))
	}
	text := textutil.Cut(strings.Join(lines, "\n"), 4000)
	exists := false
	for c, err := range client.ListComments(ctx, langfuse.ObjectTrace, trace.id) {
		if err != nil {
			return err
		}
		exists = exists || c.Content == text
	}
	if !exists {
		comment := langfuse.Comment{ProjectID: a.langfuse.Server.Project.ID, ObjectType: langfuse.ObjectTrace,
			ObjectID: trace.id, Content: text}
		if _, err := client.CreateComment(ctx, comment); err != nil {
			return err
		}
	}
	metadata, err := json.Marshal(doubt)
	if err != nil {
		return err
	}
	return errors.Join(client.CreateScores(ctx, []langfuse.ScoreCreate{{
		ID: "gold-" + trace.id, Name: seed.DoubtScore, Value: langfuse.NumberValue(highest), Type: langfuse.ScoreNumeric,
		TraceID: trace.id, Comment: text, Metadata: metadata, Environment: h.ScoreEnvironment(), Timestamp: time.Now(),
	}})...)
}
