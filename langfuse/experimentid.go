package langfuse

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// ExperimentID returns the id that Langfuse v4 computes for a run: the first 16
// hexadecimal digits of SHA-256 over the text that JavaScript's JSON.stringify
// gives for ["langfuse-experiment-v1", projectID, datasetID, runName].
//
// Bytes of runName that are not UTF-8 count as U+FFFD each, which is what this
// client's requests turn them into on the way to the server.
func ExperimentID(projectID, datasetID, runName string) string {
	var text strings.Builder
	text.WriteString(`["langfuse-experiment-v1"`)
	for _, part := range []string{projectID, datasetID, runName} {
		text.WriteByte(',')
		quoteLikeJavaScript(&text, part)
	}
	text.WriteByte(']')
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])[:16]
}

// quoteLikeJavaScript writes s as JSON.stringify does: only quote, backslash
// and the control characters below U+0020 are escaped. encoding/json differs
// in <, >, & and in U+2028 and U+2029, which it always escapes.
func quoteLikeJavaScript(out *strings.Builder, s string) {
	out.WriteByte('"')
	for _, r := range s { // invalid bytes come as U+FFFD
		switch r {
		case '"', '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case '\b':
			out.WriteString(`\b`)
		case '\f':
			out.WriteString(`\f`)
		case '\n':
			out.WriteString(`\n`)
		case '\r':
			out.WriteString(`\r`)
		case '\t':
			out.WriteString(`\t`)
		default:
			if r < ' ' {
				fmt.Fprintf(out, `\u%04x`, r)
				continue
			}
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}
