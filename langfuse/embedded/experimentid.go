package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

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
