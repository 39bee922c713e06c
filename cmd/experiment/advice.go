package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/pipeline"
	"extraction-experiment/tracking"
)

// named adds the name to a command line that the program made for want of one.
func named(args []string, made string) []string {
	if made == "" {
		return args
	}
	return append(slices.Clone(args), "--name", made)
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

// sendLater says how to send what of a run could not be sent.
func sendLater(published error, run string) error {
	var left *tracking.UnpublishedError
	if published == nil || errors.As(published, &left) && left.Refused {
		return published
	}
	return fmt.Errorf("%w; nothing is lost, send it later with: experiment publish %s", published, quote(run))
}
