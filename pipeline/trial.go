package pipeline

import "context"

type trialKey struct{}

// Trial says for which answer a model is asked, where the same request is made
// several times on purpose.
type Trial struct {
	// Number counts the trials of a run; 0 means 1.
	Number int
	// Again says that an earlier answer was of no use: a cache must not give it
	// again.
	Again bool
}

// WithTrial returns a context whose calls belong to the trial.
func WithTrial(ctx context.Context, t Trial) context.Context {
	return context.WithValue(ctx, trialKey{}, t)
}

// TrialOf returns the trial of a context; the first one where none was set.
func TrialOf(ctx context.Context) Trial {
	t, _ := ctx.Value(trialKey{}).(Trial)
	t.Number = max(t.Number, 1)
	return t
}
