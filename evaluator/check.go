package evaluator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/textutil"
)

// checkTime bounds the one request of Check.
const checkTime = 10 * time.Second

// Check says whether the evaluator is there, before anything is paid for: that
// the program can be found and so can the file that an interpreter is to run;
// that the address answers a HEAD, whatever its status but 401 and 403. It starts
// no program and asks no model: whether those work, the first case tells. The
// error is a *Fault that is Unavailable, or that of ctx.
func (e *Evaluator) Check(ctx context.Context) error {
	switch {
	case len(e.cfg.Script) > 0:
		return e.checkScript()
	case e.cfg.URL != "":
		return e.checkAddress(ctx)
	}
	return nil
}

// interpreters run the file that is their first argument.
var interpreters = textutil.Pattern(`^(python|pypy|node|ruby|perl|php|Rscript|bash|dash|zsh|sh)[0-9.]*(\.exe)?$`)

func (e *Evaluator) checkScript() error {
	if _, err := proc.New(proc.Config{Command: e.cfg.Script, Dir: e.cfg.Dir}); err != nil {
		return ofProgram(err)
	}
	words := e.cfg.Script
	if len(words) < 2 || strings.HasPrefix(words[1], "-") || !interpreters().MatchString(filepath.Base(words[0])) {
		return nil
	}
	if _, err := os.Stat(e.path(words[1])); err != nil {
		return &Fault{NotStarted, fmt.Sprintf("%s is to run %s, which cannot be opened: %v", words[0], words[1], err), err}
	}
	return nil
}

// path is that of a file of the script.
func (e *Evaluator) path(word string) string {
	if filepath.IsAbs(word) {
		return word
	}
	return filepath.Join(e.cfg.Dir, word)
}

func (e *Evaluator) checkAddress(ctx context.Context) error {
	inner, cancel := context.WithTimeout(ctx, min(checkTime, e.cfg.Timeout))
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

// Kind says in which way an evaluator misbehaved.
type Kind string

// The kinds of faults.
const (
	NotStarted  Kind = "not_started"  // the program is not there or cannot run
	Unreachable Kind = "unreachable"  // no connection, or no access
	TimedOut    Kind = "timeout"      // no answer in time; it was ended
	Exited      Kind = "exit_status"  // it ended with another status than 0
	Flooded     Kind = "flood"        // more output than an answer may have
	Unread      Kind = "input_unread" // it answered without reading the request
	Strayed     Kind = "left_running" // it ended and left processes behind
	Status      Kind = "http_status"  // an endpoint refused
	ModelFailed Kind = "model"        // the judging model gave no answer
	NotJSON     Kind = "not_json"     // nothing, text, NaN, or more than one value
	BadVerdict  Kind = "bad_verdict"  // JSON, but no verdict: fields, kinds, ranges
)

// Fault is an evaluation without a score.
type Fault struct {
	Kind    Kind
	Message string
	Err     error // the cause, where there is one
}

// Error returns the kind and what happened.
func (f *Fault) Error() string { return string(f.Kind) + ": " + f.Message }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// ExitCode is 69: what was asked for could not be had. Harnesses that expect
// faults count them instead.
func (f *Fault) ExitCode() int { return 69 }

// Unavailable reports whether the evaluator was never there to be asked, so
// that nothing is known of how it judges.
func (f *Fault) Unavailable() bool { return f.Kind == NotStarted || f.Kind == Unreachable }

// ofProgram says what an error of package proc means.
func ofProgram(err error) error {
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

// Fingerprint names what is asked: sha256 over the words of Command, the
// content of those words of a script that are files (relative to Config.Dir),
// and the text of a judge's prompt, as 64 hex digits. It changes when the
// evaluator's own file is edited, and does not see what that file imports nor
// what changes behind an address. Errors are those of reading a file.
func (e *Evaluator) Fingerprint() (string, error) {
	h := sha256.New()
	for _, word := range e.Command() {
		fmt.Fprintf(h, "%d:%s\n", len(word), word)
	}
	if e.cfg.Model != nil {
		fmt.Fprintf(h, "prompt %s\n", e.cfg.Prompt.SHA256())
	}
	for _, word := range e.cfg.Script {
		if err := e.addFile(h, word); err != nil {
			return "", fmt.Errorf("taking the fingerprint of the evaluator: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// addFile adds the digest of a file of the evaluator; a word that is none adds
// nothing.
func (e *Evaluator) addFile(h io.Writer, word string) error {
	path := e.path(word)
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil // an option, or a program of the PATH
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // only read: nothing can be lost
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return err
	}
	fmt.Fprintf(h, "file %x\n", digest.Sum(nil))
	return nil
}
