package langfuse

import (
	"net/url"
	"strconv"
	"strings"
)

// The functions below return addresses of the web interface. base is the
// server's address (Client.BaseURL), its sub-path included; the rest are ids,
// not names. All forms but ExperimentsURL exist on v3 and on v4.

// TraceURL returns the page of a trace.
func TraceURL(base, projectID, traceID string) string {
	return pageURL(base, projectID, "traces", traceID)
}

// RunURL returns the page of one run; v4 redirects it to the experiment's
// results.
func RunURL(base, projectID, datasetID, runID string) string {
	return pageURL(base, projectID, "datasets", datasetID, "runs", runID)
}

// CompareURL returns the page that sets runs of one dataset side by side; the
// first is the baseline.
func CompareURL(base, projectID, datasetID string, runIDs ...string) string {
	return pageURL(base, projectID, "datasets", datasetID, "compare") + "?" + url.Values{"runs": runIDs}.Encode()
}

// ExperimentsURL returns the list of all experiments of a project, which only
// v4 has.
func ExperimentsURL(base, projectID string) string {
	return pageURL(base, projectID, "experiments")
}

// PromptURL returns the page of one version of a prompt, or with version 0 of
// the prompt.
func PromptURL(base, projectID, name string, version int) string {
	address := pageURL(base, projectID, "prompts", name)
	if version > 0 {
		address += "?version=" + strconv.Itoa(version)
	}
	return address
}

// pageURL joins escaped segments below the project.
func pageURL(base, projectID string, segments ...string) string {
	var address strings.Builder
	address.WriteString(strings.TrimRight(base, "/") + "/project/" + url.PathEscape(projectID))
	for _, segment := range segments {
		address.WriteString("/" + url.PathEscape(segment))
	}
	return address.String()
}
