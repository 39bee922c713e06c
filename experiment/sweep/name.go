package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Flags lists what can be swept, in the order in which it stands in a name.
func Flags() []string {
	return []string{"model", "prompt", "prompt-label", "prompt-version", "temperature", "top-p", "max-tokens", "seed"}
}

// marks stand before a value that says nothing by itself.
func marks() map[string]string {
	return map[string]string{"prompt-version": "v", "temperature": "t", "top-p": "p", "max-tokens": "max", "seed": "seed"}
}

// nameWords finds a word for every value of every axis. Of two models with the
// same short name the later one has its provider before it.
func nameWords(axes []Axis) (map[Setting]string, error) {
	words := map[Setting]string{}
	for _, a := range axes {
		var taken []string
		for _, value := range a.Values {
			word := marks()[a.Flag] + number(value)
			if a.Flag == "model" {
				if word = shortModel(value); slices.Contains(taken, word) {
					word = readable(strings.TrimSuffix(value, ".jsonl"))
				}
			}
			if word = readable(word); word == "" || slices.Contains(taken, word) {
				return nil, fmt.Errorf("%s %q has no name of its own: %q", a.Flag, value, word)
			}
			taken = append(taken, word)
			words[Setting{a.Flag, value}] = word
		}
	}
	return words, nil
}

// name puts the words of a cell behind the base; a prompt and its version are
// one word, as extraction@3.
func name(base string, settings []Setting, words map[Setting]string) string {
	parts := []string{base}
	for i, s := range settings {
		if s.Flag == "prompt-version" && i > 0 && settings[i-1].Flag == "prompt" {
			parts[len(parts)-1] += "@" + readable(number(s.Value))
			continue
		}
		parts = append(parts, words[s])
	}
	return strings.Join(parts, "-")
}

// shortModel is the model without its provider, or the name of a file without
// folder and ending.
func shortModel(model string) string {
	short := model[strings.LastIndexAny(model, `/\`)+1:]
	return readable(strings.TrimSuffix(short, ".jsonl"))
}

// number writes a number in the one way that it has: 0.70 is 0.7.
func number(text string) string {
	if v, err := strconv.ParseFloat(text, 64); err == nil && !strings.ContainsAny(text, "xXpP_nN") {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return text
}

// readable leaves of a text what may stand in a name of a run.
func readable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-@", r) {
			return r
		}
		return '-'
	}, strings.ToValidUTF8(text, "-"))
	return strings.Trim(text, "-")
}
