package system

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/proc"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// Definition is what a worker on another machine is told of the system that a run
// measures. The system is only named: command, address, path and secrets are the
// worker's own.
type Definition struct {
	Measured Identity `json:"measured"`
	// Model is what is handed on to a team's own pipeline.
	Model  string                     `json:"model,omitempty"`
	Prompt []pipeline.TemplateMessage `json:"prompt,omitempty"`
	Asking
	Retries int           `json:"retries"`
	Timeout time.Duration `json:"timeout_ns"` // of an item
}

// Identity names a system on every machine alike.
type Identity struct {
	// Name is provider and model, or "pipeline" with the words of its command without
	// folders, or with the path of its address.
	Name string `json:"name"`
	// Hash is the beginning of a SHA-256: over what answers in the name's place, as far
	// as this machine knows it, such as the program's or the recording's bytes.
	Hash string `json:"hash"`
}

// String is name and hash.
func (i Identity) String() string { return i.Name + " (" + i.Hash + ")" }

// definition is that of what a Config measures, but for its identity.
func (c Config) definition(template pipeline.Template) Definition {
	return Definition{Prompt: template.Messages, Asking: c.Asking, Retries: c.Limits.Retries, Timeout: c.Limits.Timeout}
}

// OpenDefinition opens what a Definition names with one of the worker's own systems,
// of which Model, Pipeline and Limits count; admit makes the admission of a
// workers.LimitGroup. Where none of them is the one, the error names them all.
func (o Opener) OpenDefinition(d Definition, own []Config, admit func(group string) pipeline.Admission) (System, error) {
	var runs []string
	for _, cfg := range own {
		identity, err := o.Identify(cfg)
		switch {
		case err != nil:
			return System{}, err
		case identity == d.Measured:
			cfg.Limits.Admission = admit
			return o.openDefined(d, cfg)
		}
		runs = append(runs, identity.String())
	}
	return System{}, fmt.Errorf("the run measures %s, and this worker runs %s: start one with the --model or --pipeline of the run, of the same version",
		d.Measured, strings.Join(runs, ", "))
}

func (o Opener) openDefined(d Definition, cfg Config) (System, error) {
	cfg.Asking, cfg.Limits.Retries, cfg.Limits.Timeout = d.Asking, d.Retries, d.Timeout
	if cfg.Pipeline != "" {
		cfg.Model, cfg.ModelGiven = d.Model, d.Model != ""
		return o.openPipeline(cfg)
	}
	opened, known, err := o.openModel(cfg.Model)
	if err != nil {
		return System{}, err
	}
	if opened.Extractor != nil {
		return System{Extractor: opened.Extractor, Close: nothing}, nil
	}
	return o.overModel(opened, known, pipeline.Template{Messages: d.Prompt}, outcome.Prompt{}, cfg)
}

// Identify names the model or the pipeline of a Config. Nothing is sent or started.
func (o Opener) Identify(cfg Config) (Identity, error) {
	if cfg.Pipeline != "" {
		return pipelineIdentity(cfg.Pipeline)
	}
	opened, _, err := o.openModel(cfg.Model)
	if err != nil {
		return Identity{}, err
	}
	name := opened.Provider + "/" + opened.Info.Model
	if IsBaseline(cfg.Model) {
		name = opened.Info.Model
	}
	if _, file, found := strings.Cut(cfg.Model, "/"); found && opened.Info.Pipeline == provider.Recorded {
		return identity("recorded "+name, "", file)
	}
	return identity(name, opened.Info.Pipeline)
}

// pipelineIdentity is that of a program, over its words without folders and the bytes of
// the files among them (not of an interpreter's, where another word names a file), or of an
// address, over its path: the host is the worker's own.
func pipelineIdentity(target string) (Identity, error) {
	target = strings.TrimSpace(target)
	if u, err := url.Parse(target); err == nil && strings.Contains(target, "://") {
		return identity("pipeline "+path.Clean("/"+u.Path), "")
	}
	words, err := proc.Split(target)
	if err != nil {
		return Identity{}, cli.Usage("--pipeline: %w", err)
	}
	name := []string{"pipeline"}
	for _, word := range strings.Fields(provider.ShownTarget(target)) { // without what it is given in confidence
		if flag, value, joined := strings.Cut(word, "="); joined {
			name = append(name, flag+"="+filepath.Base(value))
		} else {
			name = append(name, filepath.Base(word))
		}
	}
	files := slices.DeleteFunc(words[1:], func(word string) bool {
		info, err := os.Stat(word)
		return err != nil || !info.Mode().IsRegular()
	})
	if program, err := exec.LookPath(words[0]); err == nil && len(files) == 0 {
		files = []string{program}
	}
	return identity(strings.Join(name, " "), "", files...)
}

// identity is that of a name: its hash is over the name, what is known beside it, and the
// bytes of files.
func identity(name, beside string, files ...string) (Identity, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n", name, beside)
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			return Identity{}, refused(err)
		}
		_, err = io.Copy(sum, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return Identity{}, err
		}
	}
	return Identity{Name: name, Hash: hex.EncodeToString(sum.Sum(nil)[:8])}, nil
}
