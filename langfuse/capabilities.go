package langfuse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"
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
// once and keep the answer. Retried; errors: *ConnectionError, *VersionError
// (older than 3.81), ErrUnauthorized, *APIError.
//
// API: GET /api/public/health, /projects, /experiments, /v2/scores
func (c *Client) Probe(ctx context.Context) (Server, error) {
	var server Server
	var newReads, legacyReads offer
	var identified, ofNew, ofLegacy error
	var asked sync.WaitGroup
	asked.Go(func() { server, identified = c.identify(ctx) })
	// Without a start time this endpoint answers 400 whether it is on or off.
	window := url.Values{"fromStartTime": {FormatTime(time.Now())}, "limit": {"1"}}
	asked.Go(func() { newReads, ofNew = c.offers(ctx, "experiments", window) })
	asked.Go(func() { legacyReads, ofLegacy = c.offers(ctx, "v2/scores", url.Values{"limit": {"1"}}) })
	asked.Wait()
	if identified == nil && server.Version.AtLeast(3, 206, 0) { // earlier ones do not know the path
		newReads, ofNew = c.assure(ctx, "experiments", window, newReads, ofNew)
	}
	if identified == nil {
		legacyReads, ofLegacy = c.assure(ctx, "v2/scores", url.Values{"limit": {"1"}}, legacyReads, ofLegacy)
	}
	if err := cmp.Or(identified, ofNew, ofLegacy); err != nil {
		return Server{}, err
	}
	server.NewReads, server.LegacyReads = newReads == offered, legacyReads == offered
	if !server.NewReads && !server.LegacyReads {
		return Server{}, &APIError{
			Method: "GET", Path: apiPrefix + "v2/scores", Status: 404, base: c.base, class: ErrEndpointGone,
			Message: fmt.Sprintf("version %s offers neither the reads of v3 nor those of v4", server.Version) + doubt(newReads, legacyReads),
		}
	}
	return server, nil
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

// identify finds out version, clock and project. Of several errors that of the
// version comes first: it explains the others.
func (c *Client) identify(ctx context.Context) (Server, error) {
	var server Server
	var ofVersion, ofProject error
	var asked sync.WaitGroup
	asked.Go(func() { server.Version, server.Time, server.Skew, ofVersion = c.version(ctx) })
	var project Project
	asked.Go(func() { project, ofProject = c.GetProject(ctx) })
	asked.Wait()
	if err := cmp.Or(ofVersion, ofProject); err != nil {
		return Server{}, err
	}
	server.Project = project
	return server, nil
}

// version returns the server's version, if it is new enough, and its clock.
func (c *Client) version(ctx context.Context) (Version, time.Time, time.Duration, error) {
	health, err := c.GetHealth(ctx)
	if err != nil {
		return Version{}, time.Time{}, 0, err
	}
	version, err := ParseVersion(health.Version)
	if err != nil {
		return Version{}, time.Time{}, 0, &APIError{
			Method: "GET", Path: apiPrefix + "health", Status: 200, base: c.base,
			Message: c.redact("reading the server's version: " + err.Error()),
		}
	}
	if !version.AtLeast(minVersion.Major, minVersion.Minor, minVersion.Patch) {
		return Version{}, time.Time{}, 0, &VersionError{BaseURL: c.base, Version: version}
	}
	return version, health.Time, health.Skew, nil
}

// offer is what is known of an endpoint.
type offer int

const (
	missing offer = iota
	offered
	unclear // something that is not Langfuse says that it is missing
)

// doubt says who else may be the cause where an endpoint is missing.
func doubt(offers ...offer) string {
	if !slices.Contains(offers, unclear) {
		return ""
	}
	return ": its answers are not those of Langfuse; look for a gateway or a login page before it"
}

// offers finds out whether the server has the endpoint. A missing one is a 404: a
// text about the mode, or the page of an unknown route, which something before the
// server may have answered as well.
func (c *Client) offers(ctx context.Context, path string, query url.Values) (offer, error) {
	var ignored struct{}
	err := c.getJSON(ctx, path, query, &ignored)
	var api *APIError
	switch {
	case err == nil:
		return offered, nil
	case !errors.As(err, &api) || api.Status < 400:
		return missing, err
	case api.foreign:
		return unclear, nil
	case errors.Is(err, ErrEndpointGone) || errors.Is(err, ErrNotFound):
		return missing, nil
	}
	return missing, err
}

// assure asks again where the first answer is unclear: the mode decides where a run
// is written. What stays unclear is missing.
func (c *Client) assure(ctx context.Context, path string, query url.Values, first offer, err error) (offer, error) {
	for attempt := 1; first == unclear && attempt < 3; attempt++ {
		if waited := sleep(ctx, c.pause(attempt, nil)); waited != nil {
			return first, waited
		}
		first, err = c.offers(ctx, path, query)
	}
	return first, err
}
