package seed

import (
	"fmt"
	"regexp"
	"strings"
)

// tokens numbers what was taken out of one item.
type tokens struct {
	labels []string
	number map[string]int // by label and folded text
	next   map[byte]int
	count  map[string]int  // replacements by name
	taken  map[string]bool // what an item has that looks like one, folded
	// unnumbered writes [NAME], and counts nothing.
	unnumbered bool
}

func (t *tokens) of(label byte, folded string) string {
	if t.unnumbered {
		return "[" + t.labels[label] + "]"
	}
	folded = strings.TrimSpace(folded)
	key := string([]byte{label}) + folded
	if t.number[key] == 0 {
		for t.next[label]++; t.taken[t.write(label, t.next[label])]; {
			t.next[label]++
		}
		t.number[key] = t.next[label]
	}
	t.count[t.labels[label]]++
	return t.write(label, t.number[key])
}

func (t *tokens) write(label byte, n int) string { return fmt.Sprintf("[%s-%d]", t.labels[label], n) }

// tokenForm is that of what stands for a secret, in any case.
var tokenForm = regexp.MustCompile(`(?i)\[[A-Z][A-Z0-9_]*-[0-9]+\]`)

// take keeps the numbers free that stand in a text already: they are another's.
func (t *tokens) take(text string) {
	for _, found := range tokenForm.FindAllString(text, -1) {
		t.taken[strings.ToUpper(found)] = true
	}
}
