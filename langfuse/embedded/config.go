package embedded

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The keys, project and version that stand in for empty Config fields. The keys
// are no secret: they open a server that only this machine can reach.
const (
	DefaultPublicKey = "pk-lf-embedded"
	DefaultSecretKey = "sk-lf-embedded"
	DefaultProjectID = "embedded"
	DefaultVersion   = "4.16.0"
	// DefaultVersionV3 stands in for DefaultVersion in mode v3.
	DefaultVersionV3 = "3.225.4"
)

// Config says where a Server keeps its data and who it pretends to be. The zero
// value is a server in memory with the documented keys.
type Config struct {
	// Path is the SQLite file; it is created with mode 0600 where it is absent.
	// Empty or ":memory:" keeps everything in memory until Close.
	Path string
	// Mode is the deployment that is played; empty means ModeV4.
	Mode Mode
	// PublicKey and SecretKey are the only pair that is let in. Empty means
	// DefaultPublicKey and DefaultSecretKey.
	PublicKey, SecretKey string
	// ProjectID is part of every computed experiment id, so it is fixed when
	// the file is created. Empty means the one in the file, or else
	// DefaultProjectID.
	ProjectID string
	// ProjectName is what GET /projects shows; empty means the project id.
	ProjectName string
	// Version is what GET /health reports; empty means DefaultVersion, or
	// DefaultVersionV3 in mode v3. Older ones lack what they lacked: v3/scores
	// before 3.179, datasetVersion and createdAt of a link before 3.150.1 and
	// 3.161, links in ModeV4 before 4.1.
	Version string
	// AllowAnyHost serves requests whose Host header is not a loopback name.
	// Without it they are refused, so that a web page that rebinds its name to
	// this machine cannot read the store.
	AllowAnyHost bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	// IngestionDelay is how long spans, events, scores and links stay invisible
	// after they were acknowledged; 0 means that they can be read at once.
	// Langfuse takes 15 s and more. What waits is lost when the process is
	// killed, not when the server is closed.
	IngestionDelay time.Duration
	// DeleteDelay is how long a score or trace stays after its deletion was
	// acknowledged. A deletion that is done before the score was stored is lost,
	// as in Langfuse.
	DeleteDelay time.Duration
	// MergeDelay is how long v2/observations shows a span twice that was sent
	// again when it could be read already; 0 means that it never does. Langfuse 4
	// takes minutes.
	MergeDelay time.Duration
	// Drop is asked about every span, score and link that is about to be stored:
	// where it returns true the thing is lost, and the answer is that of a success.
	// It is called from several goroutines. nil loses nothing.
	Drop func(kind, id string) bool
	// Faults makes requests fail; the zero value lets all succeed.
	Faults Faults
}

// The kinds that Drop is asked about, and what it is given as the id.
const (
	DropSpan    = "span"     // the span id
	DropScore   = "score"    // the score id
	DropRunItem = "run-item" // the id of the dataset item that is linked
)

// drops says whether a thing is to be lost.
func (c Config) drops(kind, id string) bool {
	return c.Drop != nil && c.Drop(kind, id)
}

// Validate returns all problems of the configuration that can be told without
// opening the file, or nil. Open does the same first.
func (c Config) Validate() error {
	_, err := c.complete()
	return err
}

// complete returns the configuration with every empty field filled in, or all
// problems that it has.
func (c Config) complete() (Config, error) {
	c.Path = orElse(c.Path, ":memory:")
	c.Mode = Mode(orElse(string(c.Mode), string(ModeV4)))
	c.PublicKey = orElse(c.PublicKey, DefaultPublicKey)
	c.SecretKey = orElse(c.SecretKey, DefaultSecretKey)
	c.Version = orElse(c.Version, c.Mode.version())
	if c.Now == nil {
		c.Now = time.Now
	}
	var problems []error
	if !slices.Contains(Modes(), c.Mode) {
		problems = append(problems, fmt.Errorf("mode %q is not known: use one of %q", c.Mode, Modes()))
	}
	if strings.Contains(c.PublicKey, ":") {
		problems = append(problems, errors.New("the public key holds a colon, which basic authentication cannot carry"))
	}
	problems = append(problems, c.Faults.check())
	return c, errors.Join(problems...)
}

func orElse(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
