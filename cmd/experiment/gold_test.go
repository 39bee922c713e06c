package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/configs"
	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/report"
	"extraction-experiment/seed"
)

// TestGoldLoop runs the whole audit, with EXPERIMENT_TEST_FULL in every mode. Three systems cast
// doubt on the six items with damaged gold; people correct these in Langfuse and confirm the
// other items of the queue; the runs, scored again, have the scores of the undamaged gold.
func TestGoldLoop(t *testing.T) {
	for _, mode := range modesOrSample() {
		t.Run(string(mode), func(t *testing.T) {
			d := newDeployment(t, mode)
			d.env["EXPERIMENT_CONCURRENCY"] = "1" // each request starts a process of the oracle
			undamaged := damagedSample(t)
			shares := map[string]string{"s1": "1", "s2": "0.95", "s3": "0.9"}
			for name, file := range map[string]string{"loop": "damaged.jsonl", "clean": "clean.jsonl"} {
				d.run(cli.ExitOK, "seed", "--dataset", name, "--file", file, "--id-prefix", name+"-")
				for run, share := range shares {
					d.run(cli.ExitOK, "--dataset", name, "--name", run, "--pipeline", "oracle -share "+share, "--quiet")
				}
			}

			audited, _ := d.run(cli.ExitOK, "audit", "s1", "s2", "s3", "--dataset", "loop", "--top", "25", "--queue", "doubtful", "--create-queue", "--json")
			var a report.Audit
			must(t, json.Unmarshal([]byte(audited), &a))
			if !a.Queue.Created || a.Queue.Added < len(undamaged) || a.Queue.Failed > 0 {
				t.Fatalf("%+v", a.Queue)
			}
			corrected, confirmed := d.review("doubtful", undamaged)
			if corrected != len(undamaged) {
				t.Fatalf("%d of %d damaged items were queued", corrected, len(undamaged))
			}

			seeded := func() (r seed.Result) {
				out, _ := d.run(cli.ExitOK, "seed", "--dataset", "loop", "--corrections", "doubtful", "--json")
				must(t, json.Unmarshal([]byte(out), &r))
				return r
			}
			if r := seeded(); r.Updated != corrected+confirmed || r.Created != 0 {
				t.Errorf("%d corrected, %d confirmed: %+v", corrected, confirmed, r)
			}
			if r := seeded(); r.Updated != 0 || r.Unchanged != corrected+confirmed {
				t.Errorf("again: %+v", r)
			}

			rescored, _ := d.run(cli.ExitOK, "rescore", "--dataset", "loop@now", "s1", "s2", "s3", "--gate", "entity_f1 > base", "--json")
			var r report.Regold
			must(t, json.Unmarshal([]byte(rescored), &r))
			names := []string{}
			for _, rank := range r.Ranks {
				names = append(names, rank.Rescored)
				want := d.mean(rank.Run, "clean")
				if rank.After == nil || *rank.After != want || rank.Before == nil || *rank.Before == want {
					t.Errorf("%s: %v → %v, want %v", rank.Run, rank.Before, rank.After, want)
				}
			}
			if len(r.Verdicts) != 2 || len(r.Gates) != 2 {
				t.Errorf("%+v %+v", r.Verdicts, r.Gates)
			}
			again, _ := d.run(cli.ExitOK, append(append([]string{"audit"}, names...), "--dataset", "loop", "--top", "25", "--json")...)
			var after report.Audit
			must(t, json.Unmarshal([]byte(again), &after))
			if after.Confirmed < confirmed {
				t.Errorf("%d findings are left out as confirmed, of %d items", after.Confirmed, confirmed)
			}
			for _, f := range after.Findings {
				if _, was := undamaged[strings.TrimPrefix(f.Item, "loop-")]; was && f.Doubt > 0.5 {
					t.Errorf("still doubtful: %+v", f)
				}
			}
			_, stderr := d.run(cli.ExitUsage, "rescore", "--dataset", "loop@now", names[0])
			if !strings.Contains(stderr, "still has the expected outputs that the run was scored with") {
				t.Error(stderr)
			}
		})
	}
}

// TestGoldQueue audits twice. The second audit finds more about an item that a person has completed:
// the item is opened again, and is left alone once all its findings were looked at. An item that
// failed in the newest run is represented by its trace in an older one.
func TestGoldQueue(t *testing.T) {
	const fails = "science-tick-survey"
	for _, mode := range modesOrSample() {
		t.Run(string(mode), func(t *testing.T) {
			d := newDeployment(t, mode)
			d.env["EXPERIMENT_CONCURRENCY"] = "1"
			for i, how := range []string{"-share 1", "-share 0.5", "-share 0.5 -fails " + fails} {
				d.run([]int{0, 0, cli.ExitFailures}[i], "--dataset", configs.SampleName, "--name", fmt.Sprint("s", i), "--pipeline", "oracle "+how, "--quiet")
			}
			audit := func(top string) (a report.Audit) {
				t.Helper()
				out, _ := d.run(cli.ExitOK, "audit", "s0", "s1", "s2", "--top", top, "--queue", "doubtful", "--create-queue", "--json")
				must(t, json.Unmarshal([]byte(out), &a))
				return a
			}
			expect := func(a report.Audit, added, reopened, there int) {
				t.Helper()
				if q := a.Queue; q.Added != added || q.Reopened != reopened || q.Existing != there || q.Failed > 0 {
					t.Fatalf("%+v, want %d added, %d opened again, %d there", q, added, reopened, there)
				}
			}
			seeded := func() { d.run(cli.ExitOK, "seed", "--dataset", configs.SampleName, "--corrections", "doubtful") }
			expect(audit("1"), 1, 0, 0)
			d.review("doubtful", nil)
			seeded()
			all := audit("1000")
			items := map[string]bool{}
			for _, f := range all.Findings {
				items[f.Item] = true
			}
			expect(all, len(items)-1, 1, 0)
			expect(audit("1000"), 0, 0, len(items))
			if !items[fails] || d.doubts("doubtful")[fails].Run != "s1" {
				t.Errorf("%s of %v is represented by %+v", fails, items, d.doubts("doubtful")[fails])
			}
			d.review("doubtful", nil)
			expect(audit("1000"), 0, 0, len(items))
			seeded()
			if after := audit("1000"); after.Confirmed != len(all.Findings)+1 {
				t.Errorf("%d of %d findings are confirmed", after.Confirmed, len(all.Findings)+1)
			}
		})
	}
}

// TestGoldQueue_twoAtOnce: of two audits at once, one creates the queue, and no trace is added twice.
func TestGoldQueue_twoAtOnce(t *testing.T) {
	d := newDeployment(t, modesOrSample()[0])
	for i, share := range []string{"1", "0.5", "0.5"} {
		d.run(0, "--dataset", configs.SampleName, "--name", fmt.Sprint("s", i), "--pipeline", "oracle -share "+share, "--limit", "8", "--quiet")
	}
	var audits [2]report.Audit
	var ended sync.WaitGroup
	for i := range audits {
		ended.Go(func() {
			_, out, _ := d.with(d.env, "audit", "s0", "s1", "s2", "--top", "1000", "--queue", "twice", "--create-queue", "--json")
			_ = json.Unmarshal([]byte(out), &audits[i])
		})
	}
	ended.Wait()
	x, y := audits[0].Queue, audits[1].Queue
	if x == nil || y == nil || x.Created == y.Created || x.Added+y.Added != len(d.doubts("twice")) {
		t.Errorf("%+v and %+v", x, y)
	}
}

// doubts returns what the scores of a queue's traces say, by item.
func (d deployment) doubts(queue string) map[string]seed.Doubt {
	d.t.Helper()
	found, err := d.client.GetAnnotationQueue(d.t.Context(), queue)
	must(d.t, err)
	byItem := map[string]seed.Doubt{}
	for item, err := range d.client.ListQueueItems(d.t.Context(), found.ID, "") {
		must(d.t, err)
		doubt := d.doubt(item.ObjectID)
		byItem[doubt.Item] = doubt
	}
	return byItem
}

// doubt returns what the score of a trace says.
func (d deployment) doubt(trace string) (doubt seed.Doubt) {
	d.t.Helper()
	for score, err := range d.client.ReadScores(d.t.Context(), d.server.Capabilities, langfuse.ScoresQuery{TraceIDs: []string{trace}, Names: []string{seed.DoubtScore}}) {
		must(d.t, err)
		must(d.t, json.Unmarshal(score.Metadata, &doubt))
	}
	return doubt
}

// damagedSample writes the first built-in items as clean.jsonl and, with the gold of six of them
// damaged, as damaged.jsonl. It returns the undamaged gold of the six.
func damagedSample(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	undamaged := map[string]json.RawMessage{}
	var clean, damaged bytes.Buffer
	write := func(to io.Writer, item dataset.Item) {
		raw, err := textutil.MarshalJSON(item)
		must(t, err)
		fmt.Fprintf(to, "%s\n", raw)
	}
	for item, err := range dataset.Read(configs.OpenSample(), dataset.JSONL, configs.SampleName) {
		must(t, err)
		if len(undamaged) == 6 {
			break
		}
		gold, _, err := extraction.DecodeExtraction(item.Expected)
		must(t, err)
		gold.Relationships = nil // the oracle knows only entities
		item.Expected, err = gold.MarshalJSON()
		must(t, err)
		write(&clean, item.Item)
		if len(gold.Entities) > 6 && len(undamaged) < 6 {
			undamaged[item.ID] = item.Expected
			switch len(undamaged) % 3 {
			case 0:
				gold.Entities = gold.Entities[1:]
			case 1:
				gold.Entities = append([]extraction.Entity{{Name: "the", Type: gold.Entities[0].Type}}, gold.Entities...)
			default:
				gold.Entities[0].Type = "Nonsense"
			}
			item.Expected, err = gold.MarshalJSON()
			must(t, err)
		}
		write(&damaged, item.Item)
	}
	must(t, os.WriteFile("clean.jsonl", clean.Bytes(), 0o600))
	must(t, os.WriteFile("damaged.jsonl", damaged.Bytes(), 0o600))
	return undamaged
}

// review does the work of an annotator: it corrects the damaged items and completes all items of
// the queue.
func (d deployment) review(queue string, undamaged map[string]json.RawMessage) (corrected, confirmed int) {
	d.t.Helper()
	found, err := d.client.GetAnnotationQueue(d.t.Context(), queue)
	must(d.t, err)
	for item, err := range d.client.ListQueueItems(d.t.Context(), found.ID, langfuse.QueuePending) {
		must(d.t, err)
		doubt := d.doubt(item.ObjectID)
		if right, damaged := undamaged[strings.TrimPrefix(doubt.Item, "loop-")]; damaged {
			corrected++
			d.send(http.MethodPost, "/api/embedded/annotations", map[string]any{"traceId": item.ObjectID, "correction": string(right), "authorUserId": "ada"})
		} else {
			confirmed++
		}
		d.send(http.MethodPatch, "/api/public/annotation-queues/"+found.ID+"/items/"+item.ID, map[string]any{"status": langfuse.QueueCompleted})
	}
	return corrected, confirmed
}

func (d deployment) send(method, path string, body any) {
	d.t.Helper()
	raw, err := json.Marshal(body)
	must(d.t, err)
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.env["LANGFUSE_BASE_URL"]+path, bytes.NewReader(raw))
	must(d.t, err)
	r.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	must(d.t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		d.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
}

// mean returns the mean entity_f1 of a run; failed items count as 0.
func (d deployment) mean(run, of string) float64 {
	d.t.Helper()
	text, _ := d.run(cli.ExitOK, "report", run, "--dataset", of, "--format", "json")
	var s struct {
		Scores map[string]struct {
			AsZero float64 `json:"mean_failures_as_zero"`
		} `json:"scores"`
	}
	must(d.t, json.Unmarshal([]byte(text), &s))
	return s.Scores["entity_f1"].AsZero
}
