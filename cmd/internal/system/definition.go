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
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/proc"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// Definition describes the system of a run to a worker on another machine. It only names
// the system: the worker has its own command, address, path and secrets.
type Definition struct {
	Measured Identity `json:"measured"`
	// Model is the model name that a team's own pipeline receives.
	Model  string                     `json:"model,omitempty"`
	Prompt []pipeline.TemplateMessage `json:"prompt,omitempty"`
	ModelOptions
	Retries int           `json:"retries"`
	Timeout time.Duration `json:"timeout_ns"` // of an item
}

// Identity names a system in the same way on every machine.
type Identity struct {
	// Name is provider and model, or "pipeline" with the words of its command without
	// folders, or with the path of its address.
	Name string `json:"name"`
	// Hash is the beginning of a SHA-256 over the name and what this machine knows about
	// the system, for example the bytes of the program or of the recording.
	Hash string `json:"hash"`
}

// String returns name and hash.
func (i Identity) String() string { return i.Name + " (" + i.Hash + ")" }

// definition returns the Definition of the system, without its identity.
func (c Config) definition(template pipeline.Template) Definition {
	return Definition{Prompt: template.Messages, ModelOptions: c.ModelOptions, Retries: c.Limits.Retries, Timeout: c.Limits.Timeout}
}

// OpenDefinition opens the system of d if it is one of the worker's own systems, of which
// it uses Model, Pipeline and Limits. admit returns the admission of a workers.LimitGroup.
// If no system matches, the error names all of the worker's.
func (o Opener) OpenDefinition(d Definition, own []Config, admit func(group string) pipeline.Admission) (System, error) {
	var names []string
	for _, cfg := range own {
		identity, err := o.Identify(cfg)
		switch {
		case err != nil:
			return System{}, err
		case identity == d.Measured:
			cfg.Limits.Admission = admit
			return o.openDefined(d, cfg)
		}
		names = append(names, identity.String())
	}
	return System{}, fmt.Errorf("the run measures %s, and this worker runs %s: start one with the --model or --pipeline of the run, of the same version",
		d.Measured, strings.Join(names, ", "))
}

func (o Opener) openDefined(d Definition, cfg Config) (System, error) {
	cfg.ModelOptions, cfg.Limits.Retries, cfg.Limits.Timeout = d.ModelOptions, d.Retries, d.Timeout
	if cfg.Pipeline != "" {
		cfg.Model, cfg.ModelGiven = d.Model, d.Model != ""
		return o.openPipeline(cfg)
	}
	opened, known, err := o.openModel(cfg.Model)
	if err != nil {
		return System{}, err
	}
	return o.openExtractor(opened, known, pipeline.Template{Messages: d.Prompt}, outcome.Prompt{}, cfg)
}

// Identify names the model or the pipeline of a Config. It sends and starts nothing.
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

// pipelineIdentity identifies a program by its words without folders and by the bytes of the
// files that they name. The program file itself counts only if no other word names a file,
// as a script does. It identifies an address by its path, as each worker has its own host.
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
	for _, word := range strings.Fields(provider.MaskTarget(target)) { // with secrets masked
		if flag, value, joined := strings.Cut(word, "="); joined {
			name = append(name, flag+"="+filepath.Base(value))
		} else {
			name = append(name, filepath.Base(word))
		}
	}
	var files []string
	for _, word := range words[1:] {
		if _, value, joined := strings.Cut(word, "="); joined && strings.HasPrefix(word, "-") {
			word = value
		}
		if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
			files = append(files, word)
		}
	}
	if program, err := exec.LookPath(words[0]); err == nil && len(files) == 0 {
		files = []string{program}
	}
	return identity(strings.Join(name, " "), "", files...)
}

// identity returns the Identity of a name, with a hash over the name, the detail and the
// bytes of the files.
func identity(name, detail string, files ...string) (Identity, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n", name, detail)
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			return Identity{}, usageError(err)
		}
		_, err = io.Copy(sum, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return Identity{}, err
		}
	}
	return Identity{Name: name, Hash: hex.EncodeToString(sum.Sum(nil)[:8])}, nil
}
