// Package proc runs child programs that answer requests: programs that answer each line of JSON
// on standard input with one line of JSON on standard output (Pool), programs that answer one
// request and end (Once), and programs behind an HTTP address (Address). Programs write
// messages for people to standard error. Package proc does not interpret requests and answers.
//
// A Pool has at most N processes. Each works on one request at a time. They are started when
// needed and replaced when they end:
//
//  1. Call takes an idle process, or starts one if there are fewer than N.
//  2. It writes the request and waits for one line.
//  3. After an answer, the process is idle again. In any other case (the process ended, its line was
//     too long, it printed more than one line, its answer was refused, the context ended), Call kills
//     the process with its whole group and returns an error. The next Call gets a new process.
//
// Once starts one process per request. The process reads its whole input and then prints its
// answer.
//
// The secrets that a program gets (see secret.Masker) are masked in its answers, in its
// standard error and in messages.
//
// Package proc is not a sandbox. A program has the rights of this process and, without
// Config.Withhold, its environment. A grandchild that leaves the process group (a daemon)
// outlives the program, and a Pool does not wait for it. On Linux, Once finds and kills such
// processes by a mark in their environment, unless they have cleared it.
//
//	pool, err := proc.New(proc.Config{Command: []string{"./extract", "--flag"}, Processes: 4})
//	defer pool.Close()
//	answer, err := pool.Call(ctx, []byte(`{"document_text":"…"}`))
package proc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// Config configures a Pool or a call of Once. Command is required. The zero values of all other
// fields are usable.
type Config struct {
	// Command is the program and its arguments. A program name with a separator is relative to
	// Dir; one without is looked up in PATH.
	Command []string
	// Dir is the working directory. Empty means that of this process.
	Dir string
	// Env is added to the environment of this process, in the form "NAME=value".
	Env []string
	// Withhold removes the variables that secret.Withhold withholds from the environment of the
	// program, except those in Handed. It does not affect Env.
	Withhold bool
	Handed   []string
	// Processes is the maximum number of processes. 0 means 1.
	Processes int
	// MaxLine limits the size of an answer in bytes. 0 means 64 MiB. Reading an answer may take
	// about twice its size in memory.
	MaxLine int
	// Accept, if not nil, validates each answer. If it returns an error, Call kills the
	// process, because its later answers may not match the requests, and returns an *Error
	// (Refused). Accept must be safe for concurrent use and must not keep the slices.
	Accept func(request, answer []byte) error
	// Stderr, if not nil, receives the standard error of all processes, masked, one write at a
	// time. The last lines (4 KiB) are part of error messages even if Stderr is nil.
	Stderr io.Writer
	// Grace is how long a process may take to end after Close has closed its input. 0 means 2
	// seconds.
	Grace time.Duration
	// Patience is how long a Pool waits for its first answer before it writes a line to Stderr
	// that explains how programs must answer. 0 means 20 seconds.
	Patience time.Duration
}

// program is a validated Config.
type program struct {
	cfg    Config
	name   string // in messages
	mask   *secret.Masker
	stderr *tee
}

// newProgram validates a Config, sets its defaults and looks up the program. It starts nothing.
// The error is a *StartError if the program does not exist; otherwise it describes the problem
// of the Config.
func newProgram(cfg Config) (*program, error) {
	if len(cfg.Command) == 0 || cfg.Command[0] == "" {
		return nil, errors.New("proc: the command names no program")
	}
	mask := secret.NewMasker(append(os.Environ(), cfg.Env...), cfg.Command)
	if err := mask.CheckArguments(cfg.Command); err != nil {
		return nil, err
	}
	cfg.Processes = cmp.Or(cfg.Processes, 1)
	cfg.MaxLine = cmp.Or(cfg.MaxLine, 64<<20)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	cfg.Patience = cmp.Or(cfg.Patience, 20*time.Second)
	if cfg.Stderr == nil {
		cfg.Stderr = io.Discard
	}
	p := &program{cfg: cfg, name: shorten(cfg.Command[0]), mask: mask, stderr: &tee{to: cfg.Stderr}}
	path := cfg.Command[0]
	if strings.ContainsAny(path, `/`+string(filepath.Separator)) {
		path, _ = filepath.Abs(files.Resolve(cfg.Dir, path)) // without a working directory, nothing is found
	}
	if _, err := exec.LookPath(path); err != nil {
		return nil, &StartError{Program: p.name, Err: err}
	}
	return p, nil
}

// ErrClosed is the error of Call if the Pool is closed before or during the call.
var ErrClosed = errors.New("the pool of programs is closed")

// StartError reports that a program could not be started, or that its process ended without an
// answer and no process of the program has ever answered.
type StartError struct {
	Program string
	Err     error
}

// Error includes the program and the reason.
func (e *StartError) Error() string { return fmt.Sprintf("starting %s: %v", e.Program, e.Err) }

// Unwrap returns Err.
func (e *StartError) Unwrap() error { return e.Err }

// ExitCode returns 69 because the program is not available.
func (e *StartError) ExitCode() int { return 69 }

// Kind is the way in which a running program failed to answer.
type Kind int

// The kinds of errors.
const (
	Died        Kind = iota + 1 // it ended before it answered
	Interrupted                 // it was killed because the context ended or the pool was closed
	Flooded                     // it wrote more than Config.MaxLine
	OutOfStep                   // it printed a line without a request
	Refused                     // Config.Accept returned an error for its answer
	Exited                      // only Once: its exit status was not 0
	Unread                      // only Once: it ended without reading any input
	Orphaned                    // only Once: processes that it had started outlived it and were killed
)

// Error describes how a program failed to answer.
type Error struct {
	Kind    Kind
	Program string
	Message string // what the program did
	Stderr  string // the last lines of its standard error
	Err     error  // the error of the context, ErrClosed, the error of Accept, or nil
	// NothingRead is set for Died if it had read nothing of the request.
	NothingRead bool
}

// Error describes what the program did, and includes the last lines of its standard error: the
// last one first, which says what is wrong if a script failed, since messages are cut at their end.
func (e *Error) Error() string {
	text := e.Program + " " + e.Message
	if e.Stderr != "" {
		lines := strings.TrimSpace(e.Stderr)
		if i := strings.LastIndexByte(lines, '\n'); i >= 0 {
			lines = lines[i+1:] + ";\nbefore that:\n" + lines[:i]
		}
		text += "; standard error ends with:\n" + lines
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether err is or wraps an *Error of one of the kinds.
func Is(err error, kinds ...Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(kinds, e.Kind)
}

// shellOperators are words that only a shell understands.
var shellOperators = []string{"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "<<"}

// Split splits a command line into words, without a shell.
//
// White space separates words. Single quotes make everything between them literal. Between
// double quotes, a backslash makes a following double quote or backslash literal. Outside of
// quotes, a backslash makes a following quote, backslash or white space literal. Before any
// other character a backslash is literal, so that C:\tools\extract.exe is one word. Adjacent
// quoted and unquoted parts form one word, and "" is an empty word. Variables, patterns and ~
// are not expanded.
//
// It is an error if there is no word, if a quote is not closed, if the line contains a NUL
// byte, or if a word is an unquoted shell operator (|, <, >, &, ; and their combinations).
// Errors do not contain arguments, because these may be keys.
func Split(line string) ([]string, error) {
	if strings.ContainsRune(line, 0) {
		return nil, errors.New("the command has a NUL byte")
	}
	var words []string
	problem := func(format, word string) error {
		program := append(slices.Clip(words), "")[0]
		return fmt.Errorf("the command %q: "+format, shorten(program), word)
	}
	for _, word := range commandWord().FindAllString(line, -1) {
		switch {
		case word == "'" || word == `"`:
			return nil, problem("the quote %s is not closed", word)
		case slices.Contains(shellOperators, word):
			return nil, problem("%s needs a shell and there is none: put the commands into a script and name that, or quote the word", word)
		}
		words = append(words, quotedPart().ReplaceAllStringFunc(word, func(part string) string {
			switch part[0] {
			case '\'':
				return part[1 : len(part)-1]
			case '"':
				return unescape.Replace(part[1 : len(part)-1])
			}
			return part[1:]
		}))
	}
	switch {
	case len(words) == 0:
		return nil, errors.New("the command is empty: name a program, as in './extract --flag'")
	case words[0] == "":
		return nil, errors.New("the command names no program: its first word is empty")
	}
	return words, nil
}

// space matches white space within a character class. quoted matches a text in quotes or an
// escaped character.
const (
	space  = `\s\v\x{85}\p{Z}`
	quoted = `'[^']*'|"(?:[^"\\]|\\.)*"|\\['"\\` + space + `]`
)

// commandWord matches a word of a command line, or a quote that is not closed. quotedPart
// matches the quoted and escaped parts of a word.
var (
	commandWord = textutil.Pattern(`(?s)(?:` + quoted + `|\\|[^'"\\` + space + `])+|['"]`)
	quotedPart  = textutil.Pattern(`(?s)` + quoted)
)

// unescape removes the backslashes from the text between double quotes.
var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// Shown returns a command line that can be stored and shown: secrets in the environment and in
// the arguments are masked. For a line that Split rejects, it returns the error instead.
func Shown(line string, environ []string) string {
	words, err := Split(line)
	if err != nil {
		return "a command that cannot be used: " + err.Error()
	}
	shown := secret.NewMasker(environ, words).Arguments(words)
	if slices.Equal(shown, words) {
		return strings.TrimSpace(line)
	}
	for i, word := range shown {
		if word == "" || strings.ContainsFunc(word, unicode.IsSpace) || strings.ContainsAny(word, `"'`) || slices.Contains(shellOperators, word) {
			shown[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(shown, " ")
}

// shorten truncates a line for a message.
func shorten(line string) string { return textutil.Cut(line, 200) }
