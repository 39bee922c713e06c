package outcome

import (
	"encoding/json"
	"slices"
	"time"
)

// FormatVersion is the version of the header, and of the JSONL export of a run.
const FormatVersion = 1

// Header is everything that is fixed when a run begins.
type Header struct {
	Format int    `json:"format"`
	RunUID string `json:"run_uid"` // 32 random hex digits; all other ids derive from it
	Name   string `json:"name"`
	// Harness is the part of this program that task and scorer belong to, such as "extraction";
	// empty for a task and scorer of one's own.
	Harness string `json:"harness"`

	Dataset Dataset `json:"dataset"`
	System  System  `json:"system"`
	Scorer  Scorer  `json:"scorer"`

	// Rescored is the run whose results were scored again to make this run.
	Rescored *Origin `json:"rescored,omitempty"`

	Trials      int               `json:"trials"` // at least 1
	Description string            `json:"description,omitempty"`
	Environment string            `json:"environment"` // environment of the spans in Langfuse
	Publication Publication       `json:"publication,omitzero"`
	Metadata    map[string]string `json:"metadata,omitempty"` // the user's own keys
	GitSHA      string            `json:"git_sha,omitempty"`
	Runner      string            `json:"runner_version"`
	Project     string            `json:"project"` // Langfuse project id, "" without Langfuse
	Started     time.Time         `json:"started"`
}

// Publication is the form in which a run is published to Langfuse. It is fixed when the run
// begins, so that later versions of this program publish, verify and repair the run in the same
// form. The zero value is the form of versions that recorded none.
type Publication struct {
	Form int `json:"form"` // PublicationForm of the version that began the run
	// ScoreEnvironment is the environment of the scores. With Form 0 they are in the
	// environment of the spans. For a new run, empty means Header.Environment if that is set.
	ScoreEnvironment string `json:"score_environment,omitempty"`
	// Scores are the names of scores that are published besides ErrorScore, those of external
	// evaluators, and the main scores of extraction (scoring.Headlines). AllScores stands for
	// every score. Nil means AllScores for a run without a Harness.
	Scores []string `json:"scores,omitempty"`
	// Mentions publishes positions in the text that the scorer looked up.
	Mentions bool `json:"mentions,omitempty"`
}

// ShowsAll reports whether traces show whole outputs, including positions that were looked up.
func (p Publication) ShowsAll() bool { return p.Form == 0 || p.Mentions }

// AllScores in Publication.Scores publishes every score.
const AllScores = "all"

// PublicationForm is the form in which new runs are published. A change in what is sent needs a
// new form. A run of a newer form is neither published nor verified.
//
//	0  the form before there was a Publication: all scores, in the environment of the spans;
//	   real times; failed calls have the level ERROR
//	1  few scores (Publication.Scores), in an environment of their own; spans exclude waiting;
//	   only failed items have the level ERROR; metadata of roots has the outcome, and that of
//	   runs no empty values
const PublicationForm = 1

// The default environments, which are those of Langfuse's own experiment runners: its pages
// hide the environment of the spans and show that of the scores.
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

// NewPublication returns the form of publication for a new run that is made from this one: the
// newest form, with the settings of this run.
func (h Header) NewPublication() Publication {
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
	// DatasetVersion is the version of the dataset that the other run was scored against, or
	// empty if this run is scored against the same version.
	DatasetVersion string `json:"dataset_version,omitempty"`
}

// Dataset names the items of a run.
type Dataset struct {
	ID      string `json:"id,omitempty"` // Langfuse dataset id; empty for a file
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // the pinned version, RFC 3339; empty for a file
	// Fingerprint is the SHA-256 over ids, inputs and expected outputs. It is set when the
	// listing is complete; see dataset.Fingerprint.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Selection describes the filters and limits of the dataset; empty if every item was taken.
	Selection string `json:"selection,omitempty"`
}

// System describes the system: the extractor, or the model with its parameters.
type System struct {
	Model    string `json:"model"`
	Provider string `json:"provider"`
	Pipeline string `json:"pipeline,omitempty"`
	// Endpoint distinguishes servers of one provider: host and part of a hash. Runs of earlier
	// versions have none.
	Endpoint string `json:"endpoint,omitempty"`

	Parameters
	Prompt Prompt `json:"prompt,omitzero"`
}

// Prompt pins the prompt of a run.
type Prompt struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Label   string `json:"label,omitempty"`
	SHA256  string `json:"sha256"`
	// Template is the pipeline.Template as JSON, with which the run is resumed even if Langfuse has
	// lost it. It is empty for a prompt that is not in Langfuse, in runs of earlier versions, and in exports.
	Template json.RawMessage `json:"template,omitempty"`
}

// Scorer records how outcomes are scored. Two runs are comparable only if Version and Options
// are equal.
type Scorer struct {
	Version string          `json:"version"`
	Options json.RawMessage `json:"options,omitempty"`
	// Primary is the default score for the worst items and for gates.
	Primary string `json:"primary"`
	// Custom are the scores of external evaluators.
	Custom []CustomScorer `json:"custom,omitempty"`
	// OutputOnly names the scores that depend on what was extracted alone. A failed item has no
	// such score and does not count in it.
	OutputOnly []string `json:"output_only,omitempty"`
}

// External reports whether an external evaluator gives the score of that name.
func (s Scorer) External(score string) bool {
	return slices.ContainsFunc(s.Custom, func(c CustomScorer) bool { return c.Name == score })
}

// CustomScorer is a score of an external evaluator.
type CustomScorer struct {
	Name      string `json:"name"`
	Evaluator string `json:"evaluator"` // a description for people
	Criteria  string `json:"criteria,omitempty"`
	// Fingerprint identifies the texts and files of the evaluator.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Uncertified is the reason why the evaluator is not certified. It is empty if the
	// evaluator passed its conformance fixtures and has not changed since.
	Uncertified string `json:"uncertified,omitempty"`
	// Certified describes the conditions under which the evaluator passed; Weak those that make
	// this worth little.
	Certified string `json:"certified,omitempty"`
	Weak      string `json:"weak,omitempty"`
	// Carried is the name of the run in which the evaluator was asked, if its scores were
	// copied from there.
	Carried string `json:"carried,omitempty"`
}

// Same reports whether two scores come from the same evaluator with the same criteria.
func (c CustomScorer) Same(other CustomScorer) bool {
	return c.Evaluator == other.Evaluator && c.Fingerprint == other.Fingerprint && c.Criteria == other.Criteria
}

// Status is the way in which a run ended.
type Status string

// The values of Status. See also Unfinished.
const (
	Complete    Status = "complete"    // every planned item has an outcome
	Interrupted Status = "interrupted" // stopped before its end; can be resumed
)

// Footer is written when a run ends, whatever the reason. A run without a footer was killed or
// is still running.
type Footer struct {
	Status  Status    `json:"status"`
	Planned int       `json:"planned"` // items listed × trials
	Ended   time.Time `json:"ended"`
}

// RunInfo describes the run of a Summary, with the keys of the run's metadata.
type RunInfo struct {
	Name    string `json:"name"`
	ID      string `json:"id"` // id of the experiment in Langfuse, set by the caller
	UID     string `json:"run_uid"`
	Harness string `json:"harness"`

	Dataset            string `json:"dataset"`
	DatasetVersion     string `json:"dataset_version"`
	DatasetFingerprint string `json:"dataset_fingerprint"`
	Selection          string `json:"selection"`

	// RescoredFrom is the run whose extractions were scored again; empty if this run was not
	// rescored.
	RescoredFrom string `json:"rescored_from,omitempty"`

	Model    string `json:"model"`
	Provider string `json:"provider"`
	Pipeline string `json:"pipeline"`
	ReportedParameters
	PromptName    string `json:"prompt_name"`
	PromptVersion int    `json:"prompt_version"`
	PromptLabel   string `json:"prompt_label"`

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
	URL     string     `json:"url"`   // set by the caller
}

func runInfo(h Header) RunInfo {
	info := RunInfo{
		Name: h.Name, UID: h.RunUID, Harness: h.Harness,
		Dataset: h.Dataset.Name, DatasetVersion: h.Dataset.Version,
		DatasetFingerprint: h.Dataset.Fingerprint, Selection: h.Dataset.Selection,
		Model: h.System.Model, Provider: h.System.Provider, Pipeline: h.System.Pipeline,
		ReportedParameters: ReportedParameters(h.System.Parameters),

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
