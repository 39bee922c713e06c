// Package proc keeps child programs running that answer one line of JSON with
// one line of JSON: a request on standard input, a result on standard output,
// anything for a person on standard error. It knows nothing of what the lines
// mean.
//
// A Pool holds at most N such processes; each works on one request at a time.
// They are started when they are needed and replaced when they end:
//
//  1. Call takes an idle process, or starts one while there are fewer than N.
//  2. It writes the request and waits for one line.
//  3. An answer puts the process back. Anything else (it ended, it flooded, it
//     printed more than one line, its answer was refused, the context ended)
//     kills the process with its whole group and is the error of this Call
//     only; the next Call gets a new process.
//
// Once is for programs that answer a single request and end: one process per
// request, which reads all of its input and then prints its answer.
//
// What a program was given in confidence (secret.Masker) is masked in everything
// that comes back from it: answers, standard error, messages.
//
// It is not a sandbox: a program runs with the rights and, but for Config.Withhold,
// the environment of this process, and a grandchild that leaves the process
// group (a daemon) outlives it, though nothing here waits for it. Once finds such
// ones on Linux by a mark in their environment, unless they clear that too.
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

	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// Config configures a Pool. Command is needed; every other zero value is usable.
type Config struct {
	// Command is the program and its arguments. A program without a separator
	// is looked for in PATH, one with a separator relative to Dir.
	Command []string
	// Dir is the working directory; empty means that of this process.
	Dir string
	// Env is added to the environment of this process, "NAME=value".
	Env []string
	// Withhold leaves out of that environment what secret.Withhold does, but for
	// what Handed names. Env is given in any case.
	Withhold bool
	Handed   []string
	// Processes is how many run at most; 0 means 1.
	Processes int
	// MaxLine bounds an answer, in bytes; 0 means 64 MiB. A process may need
	// about twice as much memory here while a line of that length grows.
	MaxLine int
	// Accept, if set, looks at each answer. When it returns an error, the
	// process is killed, because what it prints may be out of step with what it
	// was asked, and Call returns an *Error (Refused). It must be safe for
	// concurrent use and keep neither slice.
	Accept func(request, answer []byte) error
	// Stderr, if set, is given all that the processes write to standard error,
	// masked, one write at a time; messages show the last lines (4 KiB) in any
	// case.
	Stderr io.Writer
	// Grace is how long a process may take to end after Close has closed its
	// input, or after it has closed its output; 0 means 2 seconds.
	Grace time.Duration
	// Patience is how long the first answer may take until a line on Stderr says what
	// programs that never answer do wrong; 0 means 20 seconds.
	Patience time.Duration
}

// program is a Config that was found usable.
type program struct {
	cfg    Config
	name   string // for messages
	mask   *secret.Masker
	stderr *tee
}

// newProgram checks a Config, fills in what it leaves to us and looks for the
// program; it starts nothing. The error is a *StartError, or what is wrong with
// the Config.
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
	p := &program{cfg: cfg, name: shorten(cfg.Command[0]), mask: mask, stderr: &tee{to: cfg.Stderr}}
	if _, err := exec.LookPath(p.path()); err != nil {
		return nil, &StartError{Program: p.name, Err: err}
	}
	return p, nil
}

// path is where the system will look for the program.
func (p *program) path() string {
	path := p.cfg.Command[0]
	if strings.ContainsAny(path, `/`+string(filepath.Separator)) && !filepath.IsAbs(path) {
		path = filepath.Join(p.cfg.Dir, path)
		if !filepath.IsAbs(path) {
			path = "." + string(filepath.Separator) + path
		}
	}
	return path
}

// environ is what a process finds in its environment.
func (p *program) environ() []string {
	given := os.Environ()
	if p.cfg.Withhold {
		given, _ = secret.Withhold(given, p.cfg.Handed)
	}
	return append(given, p.cfg.Env...)
}

// ErrClosed is returned by a Call on a Pool that is closed, or is closed
// while the Call waits.
var ErrClosed = errors.New("the pool of programs is closed")

// StartError says that a program could not be started, or that none of its
// processes ever answered a request because each ended first.
type StartError struct {
	Program string
	Err     error
}

// Error names the program and the reason.
func (e *StartError) Error() string { return fmt.Sprintf("starting %s: %v", e.Program, e.Err) }

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Err }

// ExitCode is that of something that cannot be started.
func (e *StartError) ExitCode() int { return 69 }

// Kind says in which way a program that was started gave no answer.
type Kind int

// The kinds of errors.
const (
	Died        Kind = iota + 1 // it ended, or closed its output, before it answered
	Interrupted                 // the context ended or the pool was closed, and it was killed
	Flooded                     // it wrote more than Config.MaxLine
	OutOfStep                   // it printed what no request asked for
	Refused                     // Config.Accept refused its answer
	Exited                      // of Once: it ended with another status than 0
	Unread                      // of Once: it ended without having read any of its input
	Orphaned                    // of Once: processes that it started outlived it, and were killed
)

// Error says how a program failed to answer.
type Error struct {
	Kind    Kind
	Program string
	Message string // what it did
	Stderr  string // the last lines of its standard error
	Err     error  // the context's error, ErrClosed, or what Accept said
}

// Error says what the program did and what it said last.
func (e *Error) Error() string {
	text := e.Program + " " + e.Message
	if e.Stderr != "" {
		text += "; standard error ends with:\n" + strings.TrimRight(e.Stderr, "\n")
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether an error says that a program failed in one of these ways.
func Is(err error, kinds ...Kind) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains(kinds, e.Kind)
}

// operators are words that only a shell understands.
var operators = []string{"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "<<"}

// Split takes a command line apart into words, without any shell.
//
// White space separates words. Between single quotes everything stands for
// itself. Between double quotes a backslash makes a following double quote or
// backslash literal. Outside of quotes it makes a following quote, backslash or
// white space literal; before anything else it stands for itself, so that
// C:\tools\extract.exe is one word as it looks. Quoted and unquoted parts that
// touch are one word, and "" is an empty one. Variables, patterns and ~ are not
// expanded.
//
// An error names what is wrong, and repeats no argument, which may be a key: no word,
// an open quote, a NUL byte, or an unquoted |, <, >, & or ; that stands alone, because
// a shell was expected.
func Split(line string) ([]string, error) {
	if strings.ContainsRune(line, 0) {
		return nil, errors.New("the command has a NUL byte")
	}
	var words []string
	wrong := func(format, word string) error {
		program := append(slices.Clip(words), "")[0]
		return fmt.Errorf("the command %q: "+format, shorten(program), word)
	}
	for _, word := range commandWord().FindAllString(line, -1) {
		switch {
		case word == "'" || word == `"`:
			return nil, wrong("the quote %s is not closed", word)
		case slices.Contains(operators, word):
			return nil, wrong("%s needs a shell and there is none: put the commands into a script and name that, or quote the word", word)
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

// space is white space of a command line; quoted is a text in quotes or an escaped character.
const (
	space  = `\s\v\x{85}\p{Z}`
	quoted = `'[^']*'|"(?:[^"\\]|\\.)*"|\\['"\\` + space + `]`
)

// commandWord is a word of a command line, or a quote that is not closed; quotedPart are the
// parts of a word that do not stand for themselves.
var (
	commandWord = textutil.Pattern(`(?s)(?:` + quoted + `|\\|[^'"\\` + space + `])+|['"]`)
	quotedPart  = textutil.Pattern(`(?s)` + quoted)
)

// unescape reads a text of double quotes.
var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// Shown returns a command line as it may be kept and shown: secrets of the
// environment and of its arguments are masked. One that Split refuses is not
// repeated.
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
		if word == "" || strings.ContainsFunc(word, unicode.IsSpace) || strings.ContainsAny(word, `"'`) || slices.Contains(operators, word) {
			shown[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(shown, " ")
}

// shorten cuts a line for a message.
func shorten(line string) string { return textutil.Cut(line, 200) }
