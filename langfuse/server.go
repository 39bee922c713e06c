package langfuse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"extraction-experiment/internal/textutil"
)

// Capabilities is what a server can do. Everything that depends on a server's
// version or mode is decided by the methods of this value; WithMode forces a
// mode.
type Capabilities struct {
	Version Version
	// NewReads: experiments, experiment items and v2 observations can be read.
	NewReads bool
	// LegacyReads: traces, dataset runs, run items and v2 scores can be read.
	LegacyReads bool
}

// StoresLinks reports whether run items are stored: where they are, a run
// without them is not complete; where they are not, their call only computes
// the id of the run.
func (c Capabilities) StoresLinks() bool { return c.LegacyReads }

// DatasetVersions reports whether listings of items can be pinned to a version
// and links may carry it (3.150.1).
func (c Capabilities) DatasetVersions() bool { return c.Version.AtLeast(3, 150, 1) }

// DatasetSchemas reports whether datasets keep JSON Schemas (3.128).
func (c Capabilities) DatasetSchemas() bool { return c.Version.AtLeast(3, 128, 0) }

// ScoresV3 reports whether ListScores works (3.179).
func (c Capabilities) ScoresV3() bool { return c.Version.AtLeast(3, 179, 0) }

// Server is what Probe found out.
type Server struct {
	Project Project
	// Time is the server's clock at the probe, to the second; zero if unknown.
	Time time.Time
	// Skew is how far the server's clock is ahead of ours (negative: behind); 0
	// where it is unknown or too small to be told from the way of the answer.
	Skew time.Duration
	Capabilities
}

// Probe checks that the server answers, is new enough and takes the keys, and
// finds out what it can do, in four requests at once. Nothing is written. Ask
// once and keep the answer. Retried; errors: *ConnectionError,
// ErrUnauthorized, *APIError (also for a server older than 3.81).
//
// API: GET /api/public/health, /projects, /experiments, /v2/scores
func (c *Client) Probe(ctx context.Context) (Server, error) {
	var server Server
	var identified error
	// Without a start time this endpoint answers 400 whether it is on or off. An experiment that
	// is not there is asked for: a server need not look at all of them.
	window := url.Values{"fromStartTime": {FormatTime(time.Now())}, "limit": {"1"}, "id": {"0000000000000000"}}
	newReads := endpoint{path: "experiments", query: window}
	legacyReads := endpoint{path: "v2/scores", query: url.Values{"limit": {"1"}}}
	var asked sync.WaitGroup
	asked.Go(func() { server, identified = c.identify(ctx) })
	asked.Go(func() { newReads.ask(ctx, c) })
	asked.Go(func() { legacyReads.ask(ctx, c) })
	asked.Wait()
	if identified != nil {
		return Server{}, identified
	}
	if server.Version.AtLeast(3, 206, 0) { // earlier ones do not know the path
		newReads.assure(ctx, c)
	}
	legacyReads.assure(ctx, c)
	if err := cmp.Or(newReads.err, legacyReads.err); err != nil {
		return Server{}, err
	}
	server.NewReads, server.LegacyReads = newReads.offered, legacyReads.offered
	if server.NewReads || server.LegacyReads {
		return server, nil
	}
	message := fmt.Sprintf("version %s offers neither the reads of v3 nor those of v4", server.Version)
	if newReads.unclear || legacyReads.unclear {
		message += ": its answers are not those of Langfuse; look for a gateway or a login page before it"
	}
	return Server{}, c.answered(get(legacyReads.path, nil), http.StatusNotFound, ErrEndpointGone, message)
}

// ProbeAs is Probe with a mode that the caller insists on: the server is not
// asked for it. The mode "" is Probe.
//
// API: GET /api/public/health, /projects
func (c *Client) ProbeAs(ctx context.Context, mode Mode) (Server, error) {
	if mode == "" {
		return c.Probe(ctx)
	}
	server, err := c.identify(ctx)
	server.Capabilities = server.WithMode(mode)
	return server, err
}

// identify finds out version, which must be new enough, clock and project. Of several
// errors that of the version comes first: it explains the others.
func (c *Client) identify(ctx context.Context) (server Server, err error) {
	var health Health
	var ofProject error
	var asked sync.WaitGroup
	asked.Go(func() { health, err = c.GetHealth(ctx) })
	asked.Go(func() { server.Project, ofProject = c.GetProject(ctx) })
	asked.Wait()
	if err != nil {
		return Server{}, err
	}
	server.Time, server.Skew = health.Time, health.Skew
	problem := ""
	if server.Version, err = ParseVersion(health.Version); err != nil {
		problem = "reading the server's version: " + err.Error()
	} else if !server.Version.AtLeast(minVersion.Major, minVersion.Minor, minVersion.Patch) {
		problem = fmt.Sprintf("the server at %s is version %s, but %s or later is needed: upgrade it, or set %s to another server",
			c.base, server.Version, minVersion, EnvBaseURL)
	}
	if problem != "" {
		return Server{}, c.answered(get("health", nil), http.StatusOK, nil, problem)
	}
	return server, ofProject
}

// endpoint is what is known of an endpoint.
type endpoint struct {
	path    string
	query   url.Values
	offered bool
	unclear bool // something that is not Langfuse says that it is missing
	err     error
}

// ask finds out whether the server has the endpoint. A missing one is a 404: a
// text about the mode, or the page of an unknown route, which something before the
// server may have answered as well.
func (e *endpoint) ask(ctx context.Context, c *Client) {
	var ignored struct{}
	e.err = c.getJSON(ctx, e.path, e.query, &ignored)
	e.offered, e.unclear = e.err == nil, false
	api, answered := errors.AsType[*APIError](e.err)
	if !answered || api.Status < 400 {
		return
	}
	e.unclear = api.foreign
	if api.foreign || errors.Is(api, ErrEndpointGone) || errors.Is(api, ErrNotFound) {
		e.err = nil
	}
}

// assure asks again where the first answer is unclear: the mode decides where a run
// is written. What stays unclear is missing.
func (e *endpoint) assure(ctx context.Context, c *Client) {
	for attempt := 1; e.unclear && e.err == nil && attempt < 3; attempt++ {
		if e.err = sleep(ctx, c.pause(attempt, nil)); e.err == nil {
			e.ask(ctx, c)
		}
	}
}

// Health is what a server says about itself.
type Health struct {
	Version string `json:"version"`
	// Time is the server's clock when it answered, to the second; zero if it
	// did not say. A dataset version must be taken from this clock: one taken
	// from a clock that is behind leaves items out without an error.
	Time time.Time `json:"-"`
	// Skew is how far that clock is ahead of ours (negative: behind). It is 0
	// where it is unknown, or so small that the rounding to the second and the
	// time the answer took explain it.
	Skew time.Duration `json:"-"`
}

// GetHealth asks whether the server is up and which version it is. It does not
// check the keys. Retried; errors: *APIError (503 when the server is up but
// cannot work), *ConnectionError.
//
// API: GET /api/public/health
func (c *Client) GetHealth(ctx context.Context) (Health, error) {
	var health Health
	r := get("health", nil)
	answer, err := c.do(ctx, r, &health)
	if err != nil {
		return Health{}, err
	}
	received := time.Now()
	if health.Version == "" {
		return Health{}, c.answered(r, http.StatusOK, ErrEndpointGone,
			"the answer names no version: check that "+EnvBaseURL+" is a Langfuse server")
	}
	// A missing or odd Date leaves the zero time.
	health.Time, _ = http.ParseTime(answer.header.Get("Date"))
	if !health.Time.IsZero() {
		health.Skew = clockSkew(answer.sent, received, health.Time)
	}
	return health, nil
}

// clockSkew returns how far a clock that showed at, cut to the second, somewhere
// between sent and received is certainly ahead (or, negative, behind): the
// distance of [at, at+1s) from [sent, received], 0 where the two meet.
func clockSkew(sent, received, at time.Time) time.Duration {
	switch {
	case at.After(received):
		return at.Sub(received)
	case at.Add(time.Second).Before(sent):
		return at.Add(time.Second).Sub(sent)
	}
	return 0
}

// Mode is where a server keeps runs.
type Mode string

// The modes of a server, as far as they can be told from outside.
const (
	// ModeEventsOnly is v4's default: runs exist through the attributes of
	// spans only; traces, runs and run items have no endpoints.
	ModeEventsOnly Mode = "events_only"
	// ModeDual keeps both worlds.
	ModeDual Mode = "dual"
	// ModeLegacy is v3: runs exist through run items only.
	ModeLegacy Mode = "legacy"
)

// ParseMode reads a mode as a person writes it: events_only or v4, dual or
// v4-dual, legacy or v3, in any case. Nothing and "auto" are not a mode (""): the
// server is asked. Anything else is a *UsageError.
func ParseMode(text string) (Mode, error) {
	mode, known := map[string]Mode{
		"": "", "auto": "",
		"events_only": ModeEventsOnly, "events-only": ModeEventsOnly, "v4": ModeEventsOnly,
		"dual": ModeDual, "v4-dual": ModeDual,
		"legacy": ModeLegacy, "v3": ModeLegacy,
	}[strings.ToLower(strings.TrimSpace(text))]
	if known {
		return mode, nil
	}
	return "", &UsageError{fmt.Errorf("%q is not a mode of Langfuse: use v4 (%s), v4-dual (%s, which keeps v3's tables too), v3 (%s) or auto",
		textutil.Cut(text, 40), ModeEventsOnly, ModeDual, ModeLegacy)}
}

// Mode returns the mode that the readable endpoints point to.
func (c Capabilities) Mode() Mode {
	switch {
	case !c.NewReads:
		return ModeLegacy
	case c.LegacyReads:
		return ModeDual
	}
	return ModeEventsOnly
}

// WithMode returns the capabilities with the reads of a mode, whatever the
// server was found to offer; the mode "" changes nothing. A read that the server
// does not have then fails with ErrEndpointGone.
func (c Capabilities) WithMode(mode Mode) Capabilities {
	if mode != "" {
		c.NewReads = mode == ModeEventsOnly || mode == ModeDual
		c.LegacyReads = mode == ModeDual || mode == ModeLegacy
	}
	return c
}

// View is one of the two places in which Langfuse shows a run.
type View string

// The views of a run.
const (
	// ViewRuns is the dataset's list of runs, made of run items (links).
	ViewRuns View = "runs"
	// ViewExperiments is v4's list of experiments, made of root spans.
	ViewExperiments View = "experiments"
)

// Views returns the views that a server has: a run must be complete in each.
func (c Capabilities) Views() []View {
	var views []View
	if c.LegacyReads {
		views = append(views, ViewRuns)
	}
	if c.NewReads {
		views = append(views, ViewExperiments)
	}
	return views
}

// Version is the version of a Langfuse server.
type Version struct{ Major, Minor, Patch int }

// minVersion is the oldest server this client works with: older ones read the
// ids of spans wrongly.
var minVersion = Version{3, 81, 0}

// versionForm is how a version is written.
var versionForm = textutil.Pattern(`^v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?:[-+].*)?$`)

// ParseVersion reads "4.16.0", also with a leading v, without a patch level, or
// with a suffix such as -rc.1.
func ParseVersion(text string) (Version, error) {
	parts := versionForm().FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return Version{}, fmt.Errorf("%q is not a version like 4.16.0", textutil.Cut(text, 40))
	}
	var numbers [3]int
	for i, part := range parts[1:] {
		numbers[i], _ = strconv.Atoi(part) // it is digits, or nothing: 0
	}
	return Version{numbers[0], numbers[1], numbers[2]}, nil
}

// String returns the version as "4.16.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// AtLeast reports whether v is the given version or a later one.
func (v Version) AtLeast(major, minor, patch int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Patch, patch)) >= 0
}

// Project is the project that the keys belong to.
type Project struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// GetProject returns the project of the keys; it is the cheapest way to check
// them and is not rate limited. Retried; errors: ErrUnauthorized, *APIError,
// *ConnectionError.
//
// API: GET /api/public/projects
func (c *Client) GetProject(ctx context.Context) (Project, error) {
	var page page[Project]
	if err := c.getJSON(ctx, "projects", url.Values{}, &page); err != nil {
		return Project{}, err
	}
	if len(page.Data) != 1 || page.Data[0].ID == "" {
		return Project{}, c.answered(get("projects", nil), http.StatusOK, nil,
			"the keys do not stand for exactly one project: use the keys of a project, not of an organisation")
	}
	return page.Data[0], nil
}
