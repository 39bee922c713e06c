package langfuse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
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
// finds out what it can do, in four requests. Nothing is written. Ask once and
// keep the answer. Retried; errors: *ConnectionError, *VersionError (older than
// 3.81), ErrUnauthorized, *APIError.
//
// API: GET /api/public/health, /projects, /experiments, /v2/scores
func (c *Client) Probe(ctx context.Context) (Server, error) {
	server, err := c.identify(ctx)
	if err != nil {
		return Server{}, err
	}
	// Without a start time this endpoint answers 400 whether it is on or off.
	now := orDefault(server.Time, time.Now())
	window := url.Values{"fromStartTime": {FormatTime(now)}, "limit": {"1"}}
	if server.NewReads, err = c.offers(ctx, "experiments", window); err != nil {
		return Server{}, err
	}
	if server.LegacyReads, err = c.offers(ctx, "v2/scores", url.Values{"limit": {"1"}}); err != nil {
		return Server{}, err
	}
	if !server.NewReads && !server.LegacyReads {
		return Server{}, &APIError{
			Method: "GET", Path: apiPrefix + "v2/scores", Status: 404, base: c.base, class: ErrEndpointGone,
			Message: fmt.Sprintf("version %s offers neither the reads of v3 nor those of v4", server.Version),
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

// identify finds out version, clock and project.
func (c *Client) identify(ctx context.Context) (Server, error) {
	health, err := c.GetHealth(ctx)
	if err != nil {
		return Server{}, err
	}
	version, err := ParseVersion(health.Version)
	if err != nil {
		return Server{}, &APIError{
			Method: "GET", Path: apiPrefix + "health", Status: 200, base: c.base,
			Message: c.redact("reading the server's version: " + err.Error()),
		}
	}
	if !version.AtLeast(minVersion.Major, minVersion.Minor, minVersion.Patch) {
		return Server{}, &VersionError{BaseURL: c.base, Version: version}
	}
	server := Server{Time: health.Time, Skew: health.Skew, Capabilities: Capabilities{Version: version}}
	if server.Project, err = c.GetProject(ctx); err != nil {
		return Server{}, err
	}
	return server, nil
}

// offers reports whether the server has the endpoint. A missing one is a 404 of
// any kind: a text about the mode, or the page of an unknown route.
func (c *Client) offers(ctx context.Context, path string, query url.Values) (bool, error) {
	var ignored struct{}
	err := c.getJSON(ctx, path, query, &ignored)
	if errors.Is(err, ErrEndpointGone) || errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
