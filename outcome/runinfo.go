package outcome

import "time"

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
