package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// release is the version of the program; CHANGELOG.md lists the changes.
const release = "0.2.0"

// Env is the environment of a command; tests replace it.
type Env struct {
	Args   []string // without the program's name
	Resume []string // if not nil, the command line that resumes what Args began
	// Accepts, if not nil, is called with the file of a run once its items are listed, before it
	// costs anything; an error ends the run.
	Accepts func(ctx context.Context, path string) error
	// Failed, if not nil, is called with the error of the command, which is not printed then.
	Failed func(error)
	// DatasetVersion, if not empty, is the version of the dataset in Langfuse that a new run reads.
	DatasetVersion string

	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	// Terminal returns the width of the terminal of Stderr, 0 if there is none, if it does not know its
	// width, or if its cursor cannot be moved (TERM=dumb). The width may change between calls.
	Terminal func() int
}

// Process returns the environment of this process. It silences package log, to which Go's HTTP
// client prints what a server sends unasked: that may be a key.
func Process() Env {
	log.SetOutput(io.Discard)
	return Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Terminal: terminalWidth}
}

func terminalWidth() int {
	fd := int(os.Stderr.Fd())
	if !term.IsTerminal(fd) || os.Getenv("TERM") == "dumb" {
		return 0
	}
	width, _, _ := term.GetSize(fd) // 0 on a serial line and in a container without a window: nothing draws a bar there
	return width
}

// Columns returns the width of standard output: COLUMNS if it is set, else that of the terminal;
// 0 for a file or pipe.
func (e Env) Columns() (width int) {
	if n, err := strconv.Atoi(e.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if file, ok := e.Stdout.(*os.File); ok {
		width, _, _ = term.GetSize(int(file.Fd()))
	}
	return width
}

// EndSignals returns the signals that end a program: SIGINT (Ctrl-C), SIGTERM, and SIGHUP (the
// terminal was closed) unless it is ignored, as nohup does.
func EndSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// Version returns the release with the revision of the build, such as "0.2.0 (3f2a9c1b7d04,
// modified)". Builds without version control, such as "go run", have only the release.
func Version() string {
	if revision := Revision(); revision != "" {
		return release + " (" + revision + ")"
	}
	return release
}

// Revision returns the revision of the build, shortened, or "" if it is not known.
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

// Each returns the results of a function for each element of a list; nil for an empty list.
func Each[T, U any](list []T, f func(T) U) (results []U) {
	for _, element := range list {
		results = append(results, f(element))
	}
	return results
}

// shellSafe matches a word that needs no quotes in a shell.
var shellSafe = textutil.Pattern(`^[a-zA-Z0-9_./@:+%=-]+$`)

// Quote quotes a word for a shell if that is necessary.
func Quote(word string) string {
	if shellSafe().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Arguments returns arguments for a command line of this program, quoted. If one begins with -,
// they come after --, and flags must stand before them.
func Arguments(words ...string) string {
	text := strings.Join(Each(words, Quote), " ")
	if slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "-") }) {
		return "-- " + text
	}
	return text
}

// WriteFile writes a file through write and gives the file its name only when it is complete, so
// an error leaves the previous content. A symbolic link stays, and its target is replaced or made. WriteFile
// writes directly to devices and pipes, and to the file that standard output or standard error is
// (/dev/stdout). Only the owner may read the file. Errors without an exit code get 74. An empty path is no
// file: WriteFile does nothing then.
func WriteFile(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	for _, standard := range []*os.File{os.Stdout, os.Stderr} {
		if to, errTo := standard.Stat(); err == nil && errTo == nil && os.SameFile(info, to) {
			return WriteError(write(standard))
		}
	}
	if err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		return WriteError(writePipe(path, write))
	}
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			err = errors.Join(write(f), f.Close())
		}
		return WriteError(err)
	}
	if target, errLink := os.Readlink(path); errLink == nil && errors.Is(err, fs.ErrNotExist) { // so the links end
		folder, _ := filepath.EvalSymlinks(filepath.Dir(path)) // exists, as the link does
		return WriteFile(files.Resolve(folder, target), write)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return WriteError(files.Write(path, write))
}

// writePipe writes to a pipe. A signal ends the wait for its reader; the next one ends the process.
func writePipe(path string, write func(io.Writer) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), EndSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop)
	probe, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	for errors.Is(err, syscall.ENXIO) && ctx.Err() == nil { // nobody has opened it to read
		time.Sleep(20 * time.Millisecond)
		probe, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	}
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil { // macOS cannot wait for room in the probe
			context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
			err = errors.Join(write(f), f.Close())
		}
		err = errors.Join(err, probe.Close())
	}
	if ctx.Err() != nil && (errors.Is(err, syscall.ENXIO) || errors.Is(err, os.ErrDeadlineExceeded)) {
		return Errorf(ExitInterrupted, "writing %s: interrupted: nothing reads it", path)
	}
	return err
}

// CanWrite checks, before long work, that path is not a folder and its folder exists. Errors
// have exit code 64. Commands call the function of this name in cmd/internal/runs, which also
// looks at what would be replaced.
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

// SameFile reports whether two paths lead to the same existing file, which is no folder, device or pipe.
func SameFile(a, b string) bool {
	one, errA := os.Stat(a)
	other, errB := os.Stat(b)
	return errA == nil && errB == nil && one.Mode().IsRegular() && os.SameFile(one, other)
}

// envProfile is the variable that turns profiling on, for work on the program itself (see
// docs/performance.md). It names a folder for cpu.pprof, allocs.pprof and memory.json, or a file
// *.json for only the last, which costs next to nothing.
const envProfile = "EXPERIMENT_PROFILE"

// Profiled runs f and returns its result. It writes profiles if EXPERIMENT_PROFILE is set.
func Profiled(f func() int) int {
	path := os.Getenv(envProfile)
	if path == "" {
		return f()
	}
	code, err := profile(path, f)
	if err != nil {
		fmt.Fprintf(os.Stderr, "experiment: %s: %v\n", envProfile, err)
	}
	return code
}

// profile runs f and writes all profiles to a folder, or only memory.json if path is a file
// *.json.
func profile(path string, f func() int) (int, error) {
	if filepath.Ext(path) == ".json" {
		return f(), writeMemory(path)
	}
	cpu, err := os.Create(filepath.Join(path, "cpu.pprof"))
	if err == nil {
		err = pprof.StartCPUProfile(cpu)
	}
	code := f()
	pprof.StopCPUProfile()
	allocs, allocsErr := os.Create(filepath.Join(path, "allocs.pprof"))
	if allocsErr == nil {
		allocsErr = errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close())
	}
	return code, errors.Join(err, cpu.Close(), allocsErr, writeMemory(filepath.Join(path, "memory.json")))
}

// writeMemory writes how much the process has allocated.
func writeMemory(path string) error {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	text, err := json.Marshal(map[string]uint64{"allocations": stats.Mallocs, "bytes": stats.TotalAlloc, "collections": uint64(stats.NumGC)})
	return errors.Join(err, os.WriteFile(path, append(text, '\n'), 0o600))
}
