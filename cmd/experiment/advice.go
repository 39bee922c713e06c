package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/pipeline"
	"extraction-experiment/tracking"
)

// revival is how a run is taken up again that did not come to its end.
type revival int

const (
	byRetrying revival = iota // with --resume, and --retry-failed for what failed
	byResuming                // with --resume
	byNothing                 // a run of a benchmark, which begins anew
)

// anew is what to do where nothing is taken up again.
const anew = "a benchmark is not taken up again: run it anew; with --cache no answer is paid for twice"

// goOn says how to go on with the run.
func (j *job) goOn(args []string, ran error) string {
	if j.cfg.revival == byNothing {
		return anew
	}
	if j.cfg.nameMade {
		args = append(slices.Clone(args), "--name", j.cfg.name)
	}
	return "go on with: " + goOn(args, ran)
}

// resumeCommand returns the command line that goes on with this run: the same
// one, with --resume.
func resumeCommand(args []string) string {
	command := "experiment"
	for _, arg := range args {
		if arg != "--resume" {
			command += " " + quote(arg)
		}
	}
	return command + " --resume"
}

// goOn is the resume command, with MORE in the place of a budget that is used up.
func goOn(args []string, ran error) string {
	var used *pipeline.BudgetError
	if !errors.As(ran, &used) {
		return resumeCommand(args)
	}
	flag := "budget-usd"
	if used.Tokens {
		flag = "budget-tokens"
	}
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case name != flag || !strings.HasPrefix(args[i], "-"):
			kept = append(kept, args[i])
		case !joined:
			i++ // its value
		}
	}
	return resumeCommand(append(kept, "--"+flag, "MORE")) + ", a larger budget in the place of MORE"
}

// advise says how to send what could not be sent.
func (j *job) advise(published error) error {
	var left *tracking.UnpublishedError
	if published == nil || errors.As(published, &left) && left.Refused {
		return published
	}
	return fmt.Errorf("%w; nothing is lost, send it later with: experiment publish %s", published, quote(j.cfg.name))
}
