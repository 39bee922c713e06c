package chunk

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// keys brings names and types into the form in which they are compared. Not
// safe for concurrent use; each merge has its own.
type keys struct {
	fold cases.Caser
	seen map[string]string
}

func newKeys() *keys { return &keys{fold: cases.Fold(), seen: map[string]string{}} }

// name returns NFKC, full case folding, NFKC again, with runs of white space as
// one space and none at the ends.
func (k *keys) name(s string) string {
	if key, ok := k.seen[s]; ok {
		return key
	}
	folded := norm.NFKC.String(k.fold.String(norm.NFKC.String(strings.ToValidUTF8(s, "\uFFFD"))))
	key := strings.Join(strings.Fields(folded), " ")
	k.seen[s] = key
	return key
}

// typ is name with _ and - as white space: works_for equals "works for".
func (k *keys) typ(s string) string {
	return strings.Join(strings.FieldsFunc(k.name(s), func(r rune) bool { return r == ' ' || r == '_' || r == '-' }), " ")
}
