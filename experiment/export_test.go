package experiment

// What the tests of the worker pool use of it.
type RunnerConfig = runnerConfig

var (
	NewRunner  = newRunner
	RescoreRun = rescore
	Ahead      = ahead
)
