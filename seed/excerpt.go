package seed

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// excerpt is a part of a message that quotes a trace. Where a redaction is asked
// for it is not shown: it is from before the redaction.
type excerpt string

const notShown = "(not shown: it is not redacted yet)"

// withheld puts a note in the place of the excerpts.
func withheld(args []any) []any {
	private := make([]any, len(args))
	for i, arg := range args {
		private[i] = arg
		if _, quotes := arg.(excerpt); quotes {
			private[i] = notShown
		}
	}
	return private
}

// refusals returns the refusals of one trace as they may be shown.
func (r *Redaction) refusals(err error) error {
	var list []error
	for _, one := range all(err) {
		var why *refusal
		if errors.As(one, &why) {
			one = &refusal{kind: why.kind, path: shownPath(why.path), reason: r.Text(why.private), item: why.item}
		}
		list = append(list, one)
	}
	return errors.Join(list...)
}

func (r *Redaction) finding(f Finding) Finding {
	f.Path, f.Message = shownPath(f.Path), r.Text(f.Message)
	return f
}

// pathPart is a key of a path, with indexes.
var pathPart = regexp.MustCompile(`^([A-Za-z_]+)((?:\[\d+\])*)$`)

// evidence is evidence as it may be shown; without a redaction as it is.
func (r *Redaction) evidence(e Evidence) Evidence {
	if r == nil {
		return e
	}
	for key, text := range map[string]*string{"name": &e.Name, "author": &e.Author} {
		*text = r.Text(*text)
		if label := r.fieldAround([]string{"metadata", evidenceKey, key}); label != 0 && *text != "" {
			*text = "[" + r.labels[label] + "]"
		}
	}
	return e
}

// placeKeys are the first keys of paths, of traces and of items in files.
var placeKeys = []string{"input", "output", "expectedOutput", "metadata", "trace", "sourceTraceId", "sourceObservationId", "items"}

// shownPath leaves keys out of a path that not every item may have: somebody's
// name may be one.
func shownPath(path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		m := pathPart.FindStringSubmatch(part)
		known := m != nil && (wireKeys[m[1]] || slices.Contains(placeKeys, m[1]))
		if part != "" && !known {
			parts[i] = "…"
		}
	}
	return strings.Join(parts, ".")
}
