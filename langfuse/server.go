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

// Capabilities describes what a server supports. All decisions that depend on the version or
// mode of a server use its methods. WithMode overrides the mode.
type Capabilities struct {
	Version Version
	// NewReads: experiments, experiment items and v2 observations can be read.
	NewReads bool
	// LegacyReads: traces, dataset runs, run items and v2 scores can be read.
	LegacyReads bool
}

// StoresLinks reports whether the server stores run items. If it does, a run is incomplete
// without them. If it does not, CreateDatasetRunItem only computes the id of the run.
func (c Capabilities) StoresLinks() bool { return c.LegacyReads }

// DatasetVersions reports whether ListDatasetItems can read a version of a dataset and whether
// DatasetRunItemCreate.DatasetVersion may be set (3.150.1).
func (c Capabilities) DatasetVersions() bool { return c.Version.AtLeast(3, 150, 1) }

// DatasetSchemas reports whether datasets can have JSON Schemas (3.128).
func (c Capabilities) DatasetSchemas() bool { return c.Version.AtLeast(3, 128, 0) }

// ScoresV3 reports whether ListScores works (3.179).
func (c Capabilities) ScoresV3() bool { return c.Version.AtLeast(3, 179, 0) }

// Server is the result of Probe.
type Server struct {
	Project Project
	// Time is the server's clock at the time of the probe, to the second; zero if unknown.
	Time time.Time
	// Skew is how far the server's clock is ahead of the local clock, or behind if negative. It
	// is 0 if it is unknown or too small to be measured.
	Skew time.Duration
	Capabilities
}

// Probe checks that the server responds, is new enough and accepts the keys, and determines its
// capabilities. It makes four concurrent requests and writes nothing. Call it once and keep the
// result. Retried; errors: *ConnectionError, ErrUnauthorized, *APIError (also for a server
// older than 3.81).
//
// API: GET /api/public/health, /projects, /experiments, /v2/scores
func (c *Client) Probe(ctx context.Context) (Server, error) {
	var server Server
	var identifyErr error
	// Without a start time, the endpoint responds with 400 whether it is enabled or not. The id
	// of an experiment that does not exist makes the query cheap for the server.
	query := url.Values{"fromStartTime": {FormatTime(time.Now())}, "limit": {"1"}, "id": {"0000000000000000"}}
	newReads := endpoint{path: "experiments", query: query}
	legacyReads := endpoint{path: "v2/scores", query: url.Values{"limit": {"1"}}}
	var requests sync.WaitGroup
	requests.Go(func() { server, identifyErr = c.identify(ctx) })
	requests.Go(func() { newReads.probe(ctx, c) })
	requests.Go(func() { legacyReads.probe(ctx, c) })
	requests.Wait()
	if identifyErr != nil {
		return Server{}, identifyErr
	}
	if server.Version.AtLeast(3, 206, 0) { // earlier servers lack the endpoint
		newReads.confirm(ctx, c)
	}
	legacyReads.confirm(ctx, c)
	if err := cmp.Or(newReads.err, legacyReads.err); err != nil {
		return Server{}, err
	}
	server.NewReads, server.LegacyReads = newReads.available, legacyReads.available
	if server.NewReads || server.LegacyReads {
		return server, nil
	}
	message := fmt.Sprintf("version %s offers neither the reads of v3 nor those of v4", server.Version)
	if newReads.unclear || legacyReads.unclear {
		message += ": its answers are not those of Langfuse; look for a gateway or a login page before it"
	}
	return Server{}, c.newAPIError(get(legacyReads.path, nil), http.StatusNotFound, ErrEndpointGone, message)
}

// ProbeAs is like Probe but sets the mode instead of determining it. With the mode "", it is
// Probe. Errors: also that of ParseMode for a mode that is none.
//
// API: GET /api/public/health, /projects
func (c *Client) ProbeAs(ctx context.Context, mode Mode) (Server, error) {
	mode, err := ParseMode(string(mode))
	if err != nil {
		return Server{}, err
	}
	if mode == "" {
		return c.Probe(ctx)
	}
	server, err := c.identify(ctx)
	server.Capabilities = server.WithMode(mode)
	return server, err
}

// identify reads the version, the clock and the project of the server. It fails if the version
// is too old. An error about the version takes precedence, because it explains other errors.
func (c *Client) identify(ctx context.Context) (server Server, err error) {
	var health Health
	var projectErr error
	var requests sync.WaitGroup
	requests.Go(func() { health, err = c.GetHealth(ctx) })
	requests.Go(func() { server.Project, projectErr = c.GetProject(ctx) })
	requests.Wait()
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
		return Server{}, c.newAPIError(get("health", nil), http.StatusOK, nil, problem)
	}
	return server, projectErr
}

// endpoint is an endpoint whose availability Probe determines.
type endpoint struct {
	path      string
	query     url.Values
	available bool
	unclear   bool // the response that the endpoint is missing may not come from Langfuse
	err       error
}

// probe determines whether the server has the endpoint. If it is missing, the server responds
// with 404 and either a message about the mode or the page of an unknown route. The latter may
// also come from a proxy or gateway.
func (e *endpoint) probe(ctx context.Context, c *Client) {
	var ignored struct{}
	_, e.err = c.do(ctx, get(e.path, e.query), &ignored)
	e.available, e.unclear = e.err == nil, false
	api, answered := errors.AsType[*APIError](e.err)
	if !answered || api.Status < 400 {
		return
	}
	e.unclear = api.notLangfuse
	if api.notLangfuse || errors.Is(api, ErrEndpointGone) || errors.Is(api, ErrNotFound) {
		e.err = nil
	}
}

// confirm repeats an unclear probe up to twice, because the mode determines where a run is
// written. An endpoint that remains unclear counts as missing.
func (e *endpoint) confirm(ctx context.Context, c *Client) {
	for attempt := 1; e.unclear && e.err == nil && attempt < 3; attempt++ {
		if e.err = sleep(ctx, c.pause(attempt, nil)); e.err == nil {
			e.probe(ctx, c)
		}
	}
}

// Health is the result of GetHealth.
type Health struct {
	Version string `json:"version"`
	// Time is the server's clock when it responded, to the second; zero if unknown. Dataset
	// versions must come from this clock: a version from a clock that is behind silently omits
	// items.
	Time time.Time `json:"-"`
	// Skew is how far the server's clock is ahead of the local clock, or behind if negative. It
	// is 0 if it is unknown, or if the rounding to seconds and the duration of the request
	// explain the difference.
	Skew time.Duration `json:"-"`
}

// GetHealth returns the version and the clock of the server. It does not check the keys.
// Retried; errors: ErrEndpointGone (not a Langfuse server), *APIError (503 if the server is up
// but cannot work), *ConnectionError.
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
		return Health{}, c.newAPIError(r, http.StatusOK, ErrEndpointGone,
			"the answer names no version: check that "+EnvBaseURL+" is a Langfuse server")
	}
	// Without a valid Date header, the time is zero.
	health.Time, _ = http.ParseTime(answer.header.Get("Date"))
	if !health.Time.IsZero() {
		health.Skew = clockSkew(answer.sent, received, health.Time)
	}
	return health, nil
}

// clockSkew returns the minimum skew of a clock that showed at, truncated to the second, at
// some time between sent and received. It is the distance between [at, at+1s) and [sent,
// received], negative if the clock is behind, and 0 if the intervals overlap.
func clockSkew(sent, received, at time.Time) time.Duration {
	switch {
	case at.After(received):
		return at.Sub(received)
	case at.Add(time.Second).Before(sent):
		return at.Add(time.Second).Sub(sent)
	}
	return 0
}

// Mode determines which tables a server has, and so where it stores runs.
type Mode string

// The modes of a server, as far as a client can distinguish them.
const (
	// ModeEventsOnly is the default of v4. The server derives runs from the attributes of spans
	// and has no endpoints for traces, runs and run items.
	ModeEventsOnly Mode = "events_only"
	// ModeDual is v4-dual, with the endpoints of v3 and v4.
	ModeDual Mode = "dual"
	// ModeLegacy is v3. Runs consist of run items.
	ModeLegacy Mode = "legacy"
)

// ParseMode parses a mode: events_only or v4, dual or v4-dual, legacy or v3, ignoring case and
// surrounding white space. For "" and "auto" it returns "", which means that Probe determines
// the mode. For anything else it returns a *UsageError.
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

// Mode returns the mode that corresponds to the available endpoints.
func (c Capabilities) Mode() Mode {
	switch {
	case !c.NewReads:
		return ModeLegacy
	case c.LegacyReads:
		return ModeDual
	}
	return ModeEventsOnly
}

// WithMode returns the capabilities with NewReads and LegacyReads as in the given mode. The
// mode "" changes nothing. If the server is in another mode, reads from missing endpoints fail
// with ErrEndpointGone.
func (c Capabilities) WithMode(mode Mode) Capabilities {
	if mode != "" {
		c.NewReads = mode == ModeEventsOnly || mode == ModeDual
		c.LegacyReads = mode == ModeDual || mode == ModeLegacy
	}
	return c
}

// View is one of the two places where Langfuse shows a run.
type View string

// The views of a run.
const (
	// ViewRuns is the list of runs of a dataset, made from run items (links).
	ViewRuns View = "runs"
	// ViewExperiments is the list of experiments of v4, made from root spans.
	ViewExperiments View = "experiments"
)

// Views returns the views of the server. A complete run is complete in each of them.
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

// minVersion is the oldest supported version. Older servers read the ids of spans incorrectly.
var minVersion = Version{3, 81, 0}

// versionPattern matches a version.
var versionPattern = textutil.Pattern(`^v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?:[-+].*)?$`)

// ParseVersion parses a version like "4.16.0". It also accepts a leading v, a missing patch
// number and a suffix like -rc.1, which it ignores.
func ParseVersion(text string) (Version, error) {
	parts := versionPattern().FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return Version{}, fmt.Errorf("%q is not a version like 4.16.0", textutil.Cut(text, 40))
	}
	var numbers [3]int
	for i, part := range parts[1:] {
		numbers[i], _ = strconv.Atoi(part) // digits, or empty: then 0
	}
	return Version{numbers[0], numbers[1], numbers[2]}, nil
}

// String returns the version as "4.16.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// AtLeast reports whether v is the given version or a later one.
func (v Version) AtLeast(major, minor, patch int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Patch, patch)) >= 0
}

// Project is a project of a Langfuse server.
type Project struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// GetProject returns the project of the keys. It is the cheapest way to check the keys, and the
// server does not limit its rate. Retried; errors: ErrUnauthorized, *APIError (also if the keys
// do not belong to exactly one project), *ConnectionError.
//
// API: GET /api/public/projects
func (c *Client) GetProject(ctx context.Context) (Project, error) {
	var page page[Project]
	r := get("projects", nil)
	if _, err := c.do(ctx, r, &page); err != nil {
		return Project{}, err
	}
	if len(page.Data) != 1 || page.Data[0].ID == "" {
		return Project{}, c.newAPIError(r, http.StatusOK, nil,
			"the keys do not belong to exactly one project: use the keys of a project, not of an organisation")
	}
	return page.Data[0], nil
}
