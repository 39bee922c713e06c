package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// linkItem answers POST /dataset-run-items in events_only mode: the body is
// checked strictly, the item has to be active now or at datasetVersion, the
// experiment id is computed, and nothing is stored.
func (s *Server) linkItem(c *call) (reply, error) {
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	runName, itemID := f.must("runName"), f.must("datasetItemId")
	f.text("runDescription")
	f.raw("metadata")
	trace, span := f.text("traceId"), f.text("observationId")
	at, _ := f.instant("datasetVersion")
	created, given := f.instant("createdAt")
	if trace == "" && span == "" {
		f.add("custom", "traceId", "observationId or traceId must be provided")
	}
	f.only()
	if err := f.err(); err != nil {
		return reply{}, err
	}
	it, exists, err := findItem(s.store.r, itemID, at)
	if err != nil {
		return reply{}, err
	}
	if !exists || it.status != "ACTIVE" {
		return reply{}, notFound("Dataset item not found")
	}
	if trace == "" {
		if trace, err = s.traceOf(span); err != nil {
			return reply{}, err
		}
	}
	now := s.now()
	if !given {
		created = now
	}
	return ok(object{
		"id": uuid.NewString(), "datasetRunId": experimentID(s.cfg.ProjectID, it.datasetID, runName),
		"datasetRunName": runName, "datasetItemId": it.id, "traceId": trace, "observationId": nullable(span),
		"createdAt": iso(created), "updatedAt": iso(now),
	})
}

func (s *Server) traceOf(span string) (string, error) {
	traces, err := collect(s.store.r, scanText, "SELECT trace_id FROM observations WHERE span_id = ? LIMIT 1", span)
	if err != nil {
		return "", err
	}
	if len(traces) == 0 {
		return "", notFound("Observation not found")
	}
	return traces[0], nil
}

// experimentID is the id of a run: the first 16 hexadecimal digits of the
// SHA-256 of the JSON list of a constant, project, dataset and run name,
// written as JavaScript writes it.
func experimentID(project, dataset, run string) string {
	var text strings.Builder
	for i, part := range []string{"langfuse-experiment-v1", project, dataset, run} {
		text.WriteString([]string{"[", ","}[min(i, 1)])
		writeJavaScript(&text, part)
	}
	text.WriteString("]")
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])[:16]
}

// writeJavaScript quotes a string like JSON.stringify: only quotes, backslashes
// and control characters are escaped. The encoder of the standard library also
// escapes U+2028 and U+2029, which gives another hash.
func writeJavaScript(text *strings.Builder, s string) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	text.WriteByte('"')
	for _, r := range s {
		switch escaped := short[r]; {
		case escaped != "":
			text.WriteString(escaped)
		case r < 0x20:
			fmt.Fprintf(text, `\u%04x`, r)
		default:
			text.WriteRune(r)
		}
	}
	text.WriteByte('"')
}
