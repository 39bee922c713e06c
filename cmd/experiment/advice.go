package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider/external"
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
// one, with --resume. Keys among the arguments of a program are masked.
func resumeCommand(args []string) string {
	command := "experiment"
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case joined && namesProgram(flag):
			arg = flag + "=" + external.Shown(value)
		case i > 0 && namesProgram(args[i-1]):
			arg = external.Shown(arg)
		}
		if arg != "--resume" {
			command += " " + cli.Quote(arg)
		}
	}
	return command + " --resume"
}

// namesProgram reports whether a flag's value is a command line or an address.
func namesProgram(flag string) bool {
	return slices.Contains([]string{"pipeline", "command", "url"}, strings.TrimLeft(flag, "-")) && strings.HasPrefix(flag, "-")
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
	return fmt.Errorf("%w; nothing is lost, send it later with: experiment publish %s", published, cli.Quote(run))
}
