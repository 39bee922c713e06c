package evaluator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/textutil"
)

// checkTimeout bounds the request of Check.
const checkTimeout = 10 * time.Second

// Check tests whether the evaluator is available, before a run costs anything: the program and
// the file for an interpreter exist, or the address answers a HEAD request with any status but
// 401 and 403. It starts no program and calls no model, so it does not find out whether they
// work. The error is an Unavailable *Fault, or that of ctx.
func (e *Evaluator) Check(ctx context.Context) error {
	switch {
	case len(e.cfg.Script) > 0:
		return e.checkScript()
	case e.cfg.URL != "":
		return e.checkAddress(ctx)
	}
	return nil
}

// interpreters matches programs that run the file in their first argument.
var interpreters = textutil.Pattern(`^(python|pypy|node|ruby|perl|php|Rscript|bash|dash|zsh|sh)[0-9.]*(\.exe)?$`)

func (e *Evaluator) checkScript() error {
	if _, err := proc.New(proc.Config{Command: e.cfg.Script, Dir: e.cfg.Dir}); err != nil {
		return programFault(err)
	}
	words := e.cfg.Script
	if len(words) < 2 || strings.HasPrefix(words[1], "-") || !interpreters().MatchString(filepath.Base(words[0])) {
		return nil
	}
	if _, err := os.Stat(files.Resolve(e.cfg.Dir, words[1])); err != nil {
		return &Fault{NotStarted, fmt.Sprintf("%s is to run %s, which cannot be opened: %v", words[0], words[1], err), err}
	}
	return nil
}

func (e *Evaluator) checkAddress(ctx context.Context) error {
	inner, cancel := context.WithTimeout(ctx, min(checkTimeout, e.cfg.Timeout))
	defer cancel()
	reply, err := e.address.Ask(inner, http.MethodHead, nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return &Fault{Unreachable, err.Error(), err}
	case reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden:
		return &Fault{Unreachable, e.address.Refusal(reply, ""), nil}
	}
	return nil
}

// Kind is the way in which an evaluator failed.
type Kind string

// Kinds of faults.
const (
	NotStarted  Kind = "not_started"  // the program does not exist or cannot run
	Unreachable Kind = "unreachable"  // no connection, or no access
	TimedOut    Kind = "timeout"      // no answer in time
	Exited      Kind = "exit_status"  // the program ended with another status than 0
	Flooded     Kind = "flood"        // the answer is too long
	Unread      Kind = "input_unread" // the program answered without reading the request
	Strayed     Kind = "left_running" // the program ended and left processes behind
	Status      Kind = "http_status"  // the address refused the request
	ModelFailed Kind = "model"        // the judging model gave no answer
	NotJSON     Kind = "not_json"     // the answer is empty, text, NaN, or more than one value
	BadVerdict  Kind = "bad_verdict"  // the answer is JSON, but fields, types or ranges are wrong
)

// Fault is an evaluation without a score.
type Fault struct {
	Kind    Kind
	Message string
	Err     error // the cause, or nil
}

// Error returns the kind and the message.
func (f *Fault) Error() string { return string(f.Kind) + ": " + f.Message }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// ExitCode returns 69 (unavailable). Harnesses that expect faults count them instead.
func (f *Fault) ExitCode() int { return cli.ExitUnavailable }

// Unavailable reports whether the evaluator could not be reached at all, so nothing is known
// about its judgement.
func (f *Fault) Unavailable() bool { return f.Kind == NotStarted || f.Kind == Unreachable }

// programFault returns the Fault for an error of package proc.
func programFault(err error) error {
	kind, kinds := NotStarted, map[proc.Kind]Kind{
		proc.Exited: Exited, proc.Flooded: Flooded, proc.Unread: Unread, proc.Orphaned: Strayed,
	}
	if failed, ok := errors.AsType[*proc.Error](err); ok {
		kind = cmp.Or(kinds[failed.Kind], NotStarted)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		kind = TimedOut
	}
	return &Fault{kind, err.Error(), err}
}

// Fingerprint identifies the evaluator: the SHA-256 over the words of Command, the content of the
// words of a script that are files (relative to Config.Dir), and the text of a judge's prompt, as
// 64 hex digits. It changes if a file of the script changes, but not if files change that it
// imports, or the service behind an address. Errors are those of reading a file.
func (e *Evaluator) Fingerprint() (string, error) {
	h := sha256.New()
	for _, word := range e.Command() {
		fmt.Fprintf(h, "%d:%s\n", len(word), word)
	}
	if e.cfg.Model != nil {
		fmt.Fprintf(h, "prompt %s\n", e.cfg.Prompt.SHA256())
	}
	for _, word := range e.cfg.Script {
		path := files.Resolve(e.cfg.Dir, word)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue // an option, or a program in the PATH
		}
		sum, err := fileSum(path)
		if err != nil {
			return "", fmt.Errorf("taking the fingerprint of the evaluator: %w", err)
		}
		fmt.Fprintf(h, "file %x\n", sum)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// fileSum returns the SHA-256 of a file, which may be as large as a model.
func fileSum(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only, nothing to lose
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return sum.Sum(nil), err
}
