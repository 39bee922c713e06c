package outcome

import (
	"encoding/json"
	"slices"
	"time"
)

// FormatVersion is the version of the run file and of its JSONL export.
const FormatVersion = 1

// Header is everything that is fixed when a run begins.
type Header struct {
	Format  int    `json:"format"`
	RunUID  string `json:"run_uid"` // 32 hex digits, random, made once; every id derives from it
	Name    string `json:"name"`
	Harness string `json:"harness"` // "extraction"

	Dataset Dataset `json:"dataset"`
	System  System  `json:"system"`
	Scorer  Scorer  `json:"scorer"`

	// Rescored is the run whose results were scored again to make this one.
	Rescored *Origin `json:"rescored,omitempty"`

	Trials      int               `json:"trials"` // at least 1
	Description string            `json:"description,omitempty"`
	Environment string            `json:"environment"` // of the spans in Langfuse
	Publication Publication       `json:"publication,omitzero"`
	Metadata    map[string]string `json:"metadata,omitempty"` // the user's own keys
	GitSHA      string            `json:"git_sha,omitempty"`
	Runner      string            `json:"runner_version"`
	Project     string            `json:"project"` // Langfuse project id, "" without Langfuse
	Started     time.Time         `json:"started"`
}

// Publication is the form in which a run is published to Langfuse. It is fixed
// when the run begins, so that publishing, verifying and repairing it by a later
// version of this program write and expect the same. The zero value is the form
// of the versions that noted none.
type Publication struct {
	Form int `json:"form"` // PublicationForm of the version that began the run
	// ScoreEnvironment is the environment of the scores; with Form 0 they are
	// in the environment of the spans.
	ScoreEnvironment string `json:"score_environment,omitempty"`
	// Scores are the names of scores to publish besides the default ones;
	// AllScores stands for every score.
	Scores []string `json:"scores,omitempty"`
	// Mentions publishes positions in the text that the scorer looked up.
	Mentions bool `json:"mentions,omitempty"`
}

// ShowsAll reports whether traces show outputs with positions that were looked up.
func (p Publication) ShowsAll() bool { return p.Form == 0 || p.Mentions }

// AllScores in Publication.Scores publishes every score.
const AllScores = "all"

// PublicationForm is the form in which runs that begin now are published.
const PublicationForm = 1

// The environments of runs that name none, as Langfuse's own experiment runners
// have them: its pages hide that of the spans, and show that of the scores.
const (
	SpanEnvironment  = "sdk-experiment"
	ScoreEnvironment = "default"
)

// ScoreEnvironment returns the environment of the run's scores in Langfuse.
func (h Header) ScoreEnvironment() string {
	if h.Publication.Form == 0 {
		return h.Environment
	}
	return h.Publication.ScoreEnvironment
}

// PublishedAnew returns the form of publication for a run that is made from this one now:
// the newest form, with what a person chose for this run.
func (h Header) PublishedAnew() Publication {
	p := h.Publication
	if p.Form == 0 && h.Environment == SpanEnvironment {
		p.ScoreEnvironment = ScoreEnvironment
	} else if p.Form == 0 {
		p.ScoreEnvironment = h.Environment
	}
	p.Form = PublicationForm
	return p
}

// Origin names another run.
type Origin struct {
	Name   string `json:"name"`
	RunUID string `json:"run_uid"`
	// DatasetVersion is that of the gold that the other run was scored over, where
	// this one is scored over another version; "" where over the same.
	DatasetVersion string `json:"dataset_version,omitempty"`
}

// Dataset names the items of a run.
type Dataset struct {
	ID      string `json:"id,omitempty"` // Langfuse dataset id; empty for a file
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // the pin, RFC 3339; empty for a file
	// Fingerprint is sha256 over ids, inputs and expected outputs, set when
	// the listing is complete; see dataset.Fingerprint.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Selection describes filters and limits that narrowed the dataset;
	// empty when every item was taken.
	Selection string `json:"selection,omitempty"`
}

// System is what is measured: the extractor or model with its parameters.
type System struct {
	Model    string `json:"model"`
	Provider string `json:"provider"`
	Pipeline string `json:"pipeline,omitempty"`
	// Endpoint tells servers of one provider apart: host and part of a hash.
	// Runs of earlier versions have none.
	Endpoint string `json:"endpoint,omitempty"`

	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`

	Prompt Prompt `json:"prompt,omitzero"`
}

// Prompt pins the prompt of a run.
type Prompt struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Label   string `json:"label,omitempty"`
	SHA256  string `json:"sha256"`
}

// Scorer records how outcomes are scored: two runs are comparable only if both fields are
// equal.
type Scorer struct {
	Version string          `json:"version"`
	Options json.RawMessage `json:"options,omitempty"`
	// Primary is the score that worst items and gates look at by default.
	Primary string `json:"primary"`
	// Custom are the scores that external evaluators gave.
	Custom []CustomScorer `json:"custom,omitempty"`
	// OutputOnly names the scores of what was extracted, whatever was expected: a
	// failed item has none, and counts for nothing.
	OutputOnly []string `json:"output_only,omitempty"`
}

// External reports whether an external evaluator gives the score of that name.
func (s Scorer) External(score string) bool {
	return slices.ContainsFunc(s.Custom, func(c CustomScorer) bool { return c.Name == score })
}

// CustomScorer is one score that an external evaluator gave.
type CustomScorer struct {
	Name      string `json:"name"`
	Evaluator string `json:"evaluator"` // who was asked, as a person reads it
	Criteria  string `json:"criteria,omitempty"`
	// Fingerprint names the evaluator's words and files.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Uncertified says why the evaluator counts as not certified; empty for one
	// that passed its conformance fixtures and has not changed since.
	Uncertified string `json:"uncertified,omitempty"`
	// Certified says on what terms it passed; Weak says which of them make that
	// worth little.
	Certified string `json:"certified,omitempty"`
	Weak      string `json:"weak,omitempty"`
	// Carried names the run in which the evaluator was asked, where the scores of
	// that were taken over without asking again.
	Carried string `json:"carried,omitempty"`
}

// Same reports whether two scores come from one and the same evaluator, asked
// for the same.
func (c CustomScorer) Same(as CustomScorer) bool {
	return c.Evaluator == as.Evaluator && c.Fingerprint == as.Fingerprint && c.Criteria == as.Criteria
}

// Status says how a run ended.
type Status string

// The ways in which a run ends.
const (
	Complete    Status = "complete"    // every planned item has an outcome
	Interrupted Status = "interrupted" // stopped by the user; can be resumed
)

// Footer is written when a run ends, in whatever way; a run without one was killed.
type Footer struct {
	Status  Status    `json:"status"`
	Planned int       `json:"planned"` // items listed × trials
	Ended   time.Time `json:"ended"`
}

// RunInfo says which run a Summary is of, with the keys of the run's metadata.
type RunInfo struct {
	Name    string `json:"name"`
	ID      string `json:"id"` // the experiment's id in Langfuse, filled in by the caller
	UID     string `json:"run_uid"`
	Harness string `json:"harness"`

	Dataset            string `json:"dataset"`
	DatasetVersion     string `json:"dataset_version"`
	DatasetFingerprint string `json:"dataset_fingerprint"`
	Selection          string `json:"selection"`

	// RescoredFrom is the run whose extractions were scored again, if they were.
	RescoredFrom string `json:"rescored_from,omitempty"`

	Model         string   `json:"model"`
	Provider      string   `json:"provider"`
	Pipeline      string   `json:"pipeline"`
	Temperature   *float64 `json:"temperature"`
	TopP          *float64 `json:"top_p"`
	MaxTokens     *int     `json:"max_tokens"`
	Seed          *int64   `json:"seed"`
	PromptName    string   `json:"prompt_name"`
	PromptVersion int      `json:"prompt_version"`
	PromptLabel   string   `json:"prompt_label"`

	ScorerVersion string `json:"scorer_version"`
	// CustomScorers are the scores of external evaluators, certified or not.
	CustomScorers []CustomScorer `json:"custom_scorers,omitempty"`

	Primary     string `json:"primary_score"`
	Trials      int    `json:"trials"`
	Description string `json:"description"`
	Environment string `json:"environment"`
	GitSHA      string `json:"git_sha"`
	Runner      string `json:"runner_version"`

	Started time.Time  `json:"started,omitzero"`
	Ended   *time.Time `json:"ended"` // nil without a Footer
	URL     string     `json:"url"`   // filled in by the caller
}

func describe(h Header) RunInfo {
	info := RunInfo{
		Name: h.Name, UID: h.RunUID, Harness: h.Harness,
		Dataset: h.Dataset.Name, DatasetVersion: h.Dataset.Version,
		DatasetFingerprint: h.Dataset.Fingerprint, Selection: h.Dataset.Selection,
		Model: h.System.Model, Provider: h.System.Provider, Pipeline: h.System.Pipeline,
		Temperature: h.System.Temperature, TopP: h.System.TopP,
		MaxTokens: h.System.MaxTokens, Seed: h.System.Seed,
		PromptName: h.System.Prompt.Name, PromptVersion: h.System.Prompt.Version,
		PromptLabel:   h.System.Prompt.Label,
		CustomScorers: h.Scorer.Custom,
		ScorerVersion: h.Scorer.Version, Primary: h.Scorer.Primary, Trials: max(1, h.Trials),
		Description: h.Description, Environment: h.Environment, GitSHA: h.GitSHA,
		Runner: h.Runner, Started: h.Started,
	}
	if h.Rescored != nil {
		info.RescoredFrom = h.Rescored.Name
	}
	return info
}
