package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/term"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// release is the version of the program; CHANGELOG.md says what it brought.
const release = "0.2.0"

// Env is the outside world of a command; tests replace it.
type Env struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	// Terminal reports the width of the terminal of Stderr, 0 if there is none.
	// It is asked again each time, because windows are resized.
	Terminal func() int
}

// Process is the outside world of this process.
func Process() Env {
	return Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Terminal: terminalWidth}
}

func terminalWidth() int {
	fd := int(os.Stderr.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	width, _, err := term.GetSize(fd)
	if err != nil || width <= 0 {
		return 80 // a terminal that does not tell, as over a serial line
	}
	return width
}

// Columns is how wide standard output is: as COLUMNS says, else as its terminal is; 0 for a
// file or pipe.
func (e Env) Columns() (width int) {
	if n, err := strconv.Atoi(e.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if file, ok := e.Stdout.(*os.File); ok {
		width, _, _ = term.GetSize(int(file.Fd()))
	}
	return width
}

// EndSignals are the signals that end a program: Ctrl-C, SIGTERM, and that of the
// end of the terminal (SIGHUP), unless it is ignored as nohup has it.
func EndSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// Version returns the release with the revision it was built from, such as
// "0.1.0 (3f2a9c1b7d04, modified)"; without version control at build time, as
// under "go run", only the release.
func Version() string {
	if revision := Revision(); revision != "" {
		return release + " (" + revision + ")"
	}
	return release
}

// Revision returns the revision that the program was built from, shortened, or
// "" where it is not known.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision []string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = append([]string{s.Value[:min(12, len(s.Value))]}, revision...)
		case s.Key == "vcs.modified" && s.Value == "true":
			revision = append(revision, "modified")
		}
	}
	return strings.Join(revision, ", ")
}

// Each returns what of makes of each of a list; nil for none.
func Each[T, U any](list []T, of func(T) U) (made []U) {
	for _, one := range list {
		made = append(made, of(one))
	}
	return made
}

// plain is a word that a shell takes as it is.
var plain = textutil.Pattern(`^[a-zA-Z0-9_./@:+%=-]+$`)

// Quote returns a word as one would write it in a shell.
func Quote(word string) string {
	if plain().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// WriteFile lets write fill a file and gives it its name only when all of it
// is there, so that an error leaves what was there before. Devices and pipes
// are written as they are. The file is for its owner only; errors that have no
// exit code get 74.
func WriteFile(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			err = errors.Join(write(f), f.Close())
		}
		return Written(err)
	}
	return Written(files.Write(path, write))
}

// CanWrite checks before a long work that WriteFile will find the folder.
func CanWrite(path string) error {
	info, err := os.Stat(filepath.Dir(path))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", filepath.Dir(path))
	}
	if err != nil {
		return Usage("writing %s: %w", path, err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return Usage("writing %s: it is a folder", path)
	}
	return nil
}

// SameFile reports whether two paths lead to one file that exists.
func SameFile(a, b string) bool {
	one, errA := os.Stat(a)
	other, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(one, other)
}

// envProfile names a folder for what a process costs: cpu.pprof, allocs.pprof and
// memory.json; or only a file *.json for the last, which costs next to nothing. It is for
// those who work on this program, see docs/performance.md.
const envProfile = "EXPERIMENT_PROFILE"

// Profiled runs f and, where the environment names a place, writes down what it cost.
func Profiled(f func() int) int {
	place := os.Getenv(envProfile)
	if place == "" {
		return f()
	}
	code, err := profile(place, f)
	if err != nil {
		fmt.Fprintf(os.Stderr, "experiment: %s: %v\n", envProfile, err)
	}
	return code
}

// profile writes where time was spent and memory was allocated, or how much alone.
func profile(dir string, f func() int) (int, error) {
	if filepath.Ext(dir) == ".json" {
		return f(), writeMemory(dir)
	}
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err == nil {
		err = pprof.StartCPUProfile(cpu)
	}
	code := f()
	pprof.StopCPUProfile()
	allocs, failed := os.Create(filepath.Join(dir, "allocs.pprof"))
	if failed == nil {
		failed = errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close())
	}
	return code, errors.Join(err, cpu.Close(), failed, writeMemory(filepath.Join(dir, "memory.json")))
}

// writeMemory writes how much was allocated in all.
func writeMemory(path string) error {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	text, err := json.Marshal(map[string]uint64{"allocations": stats.Mallocs, "bytes": stats.TotalAlloc, "collections": uint64(stats.NumGC)})
	return errors.Join(err, os.WriteFile(path, append(text, '\n'), 0o600))
}
