package experiment

import (
	"context"
	"iter"

	"extraction-experiment/compare"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// RunFile is a run in a file, as a compare.Source.
type RunFile struct {
	*runstore.Reader
	// Metadata makes Items read the metadata of the items, which compare.Config.ClusterBy needs.
	Metadata bool
}

// OpenRun opens the file of a run (Result.Path) or an export for reading, even while the run goes
// on. The caller must close it. The errors are those of runstore.OpenAny.
func OpenRun(ctx context.Context, path string) (RunFile, error) {
	run, err := runstore.OpenAny(ctx, path)
	return RunFile{Reader: run}, err
}

// Where returns the path of the file.
func (r RunFile) Where() string { return r.Path() }

// Outcomes yields the newest outcomes with the parts that comparing needs.
func (r RunFile) Outcomes(ctx context.Context) iter.Seq2[outcome.Outcome, error] {
	return r.OfTrial(ctx, 0)
}

// OfTrial is Outcomes for one trial; 0 means all trials.
func (r RunFile) OfTrial(ctx context.Context, trial int) iter.Seq2[outcome.Outcome, error] {
	return r.Reader.Outcomes(ctx, runstore.Query{Newest: true, Depth: runstore.Judged, Trial: trial})
}

// Items yields ids and hashes of the items. It reads whole items, which can be large, only if
// Metadata is set.
func (r RunFile) Items(ctx context.Context) iter.Seq2[compare.Item, error] {
	if r.Metadata {
		return stats.Map(r.Reader.Items(ctx), func(item runstore.Item) compare.Item {
			return compare.Item{ID: item.ID, Hash: item.Hash, Metadata: item.Metadata}
		})
	}
	return stats.Map(r.Hashes(ctx), func(h runstore.ItemHash) compare.Item {
		return compare.Item{ID: h.ID, Hash: h.Hash}
	})
}
