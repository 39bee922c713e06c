package secret

import (
	"bytes"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// shortest is the length in bytes below which a key is not looked for: a local
// server's key "x" would make stars of every word.
const shortest = 4

// shortestInData is the same for data: an answer that is about a word "dummy"
// must not change because a local server's key is that word.
const shortestInData = 16

// Mask returns data with every occurrence of the keys replaced by "***". It is
// for what a server answers, which is kept as it is: keys of fewer than 16 bytes
// stay. A key that is part of another must stand behind it. Data without a key is
// returned itself. Time O(len(data)·keys).
func Mask(data []byte, keys ...Secret) []byte {
	for _, key := range keys {
		if plain := []byte(key.Reveal()); len(plain) >= shortestInData && bytes.Contains(data, plain) {
			data = bytes.ReplaceAll(data, plain, []byte(hidden))
		}
	}
	return data
}

// userInfo finds the user and password of an address, such as a proxy's.
var userInfo = regexp.MustCompile(`://[^/?#\s"'@]+@`)

// Redact returns text with every occurrence of the keys replaced by "***", as
// they are and escaped as in an address, and without the user and password of
// addresses. Keys of fewer than four bytes stay. Longer keys go first, so that
// a key that is part of another leaves no rest. Time O(len(text)·keys).
func Redact(text string, keys ...Secret) string {
	var forms []string
	for _, key := range keys {
		if plain := key.Reveal(); len(plain) >= shortest {
			forms = append(forms, plain, url.QueryEscape(plain), url.PathEscape(plain))
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, hidden)
	}
	return userInfo.ReplaceAllString(text, "://"+hidden+"@")
}
