package proc

import (
	"cmp"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"extraction-experiment/internal/secret"
)

// Config configures a Pool. Command or Line is needed; every other zero value is
// usable.
type Config struct {
	// Command is the program and its arguments. A program without a separator
	// is looked for in PATH, one with a separator relative to Dir.
	Command []string
	// Line is the command as one string, for Split; not together with Command.
	Line string
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
	// was asked, and Call returns a *RefusedError. It must be safe for
	// concurrent use and keep neither slice.
	Accept func(request, answer []byte) error
	// Stderr, if set, is given all that the processes write to standard error,
	// masked, one write at a time; messages show the last lines (4 KiB) in any
	// case.
	Stderr io.Writer
	// Grace is how long a process may take to end after Close has closed its
	// input, or after it has closed its output; 0 means 2 seconds.
	Grace time.Duration
}

// complete checks a Config and fills in what it leaves to us.
func (cfg Config) complete() (Config, error) {
	var problems []error
	if (len(cfg.Command) == 0) == (cfg.Line == "") {
		problems = append(problems, errors.New("proc: give either Command or Line"))
	} else if cfg.Line != "" {
		words, err := Split(cfg.Line)
		problems = append(problems, err)
		cfg.Command = words
	} else if cfg.Command[0] == "" {
		problems = append(problems, errors.New("proc: the command names no program"))
	}
	problems = append(problems, cfg.masker().CheckArguments(cfg.Command))
	if cfg.Processes < 0 || cfg.MaxLine < 0 || cfg.Grace < 0 {
		problems = append(problems, errors.New("proc: Processes, MaxLine and Grace must not be negative"))
	}
	if err := errors.Join(problems...); err != nil {
		return cfg, err
	}
	cfg.Processes = cmp.Or(cfg.Processes, 1)
	cfg.MaxLine = cmp.Or(cfg.MaxLine, 64<<20)
	cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)
	return cfg, nil
}

// environ is what a process finds in its environment.
func (cfg Config) environ() []string {
	given := os.Environ()
	if cfg.Withhold {
		given, _ = secret.Withhold(given, cfg.Handed)
	}
	return append(given, cfg.Env...)
}

// masker hides what the program could know of secrets.
func (cfg Config) masker() *secret.Masker {
	return secret.NewMasker(append(os.Environ(), cfg.Env...), cfg.Command)
}

// Find says whether the program of a Config is there and may be run; it starts
// nothing. The error is a *StartError, or what is wrong with the Config.
func Find(cfg Config) error {
	cfg, err := cfg.complete()
	if err != nil {
		return err
	}
	if err := findProgram(cfg); err != nil {
		return &StartError{Program: shorten(cfg.Command[0]), Err: err}
	}
	return nil
}

// findProgram looks for the program as the system will.
func findProgram(cfg Config) error {
	path := cfg.Command[0]
	if strings.ContainsAny(path, `/`+string(filepath.Separator)) && !filepath.IsAbs(path) {
		path = filepath.Join(cfg.Dir, path)
		if !filepath.IsAbs(path) {
			path = "." + string(filepath.Separator) + path
		}
	}
	_, err := exec.LookPath(path)
	return err
}
