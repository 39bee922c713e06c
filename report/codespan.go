package report

import (
	"net/url"
	"strings"

	"extraction-experiment/internal/printable"
)

// code puts a stranger's text into a code span of Markdown, with more backticks
// around it than it has in a row.
func code(s string) string {
	s = printable.Line(s)
	if s == "" {
		return "(none)"
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// snip cuts a text to so many characters.
func snip(s string, most int) string {
	shown, left := firstRunes(s, most)
	if left > 0 {
		return shown + "…"
	}
	return s
}

// webLink returns an address that a browser may be sent to: http or https.
func webLink(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", false
	}
	return strings.NewReplacer("<", "%3C", ">", "%3E").Replace(u.String()), true
}
