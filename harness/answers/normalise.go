package answers

import (
	"regexp"
	"strings"
	"unicode"
)

var (
	// moreThan and lessThan stand before a number; \b knows ASCII letters only.
	moreThan = regexp.MustCompile(`(^|[^\p{L}\p{N}])(?:более|свыше) ?(\d)`)
	lessThan = regexp.MustCompile(`(^|[^\p{L}\p{N}])менее ?(\d)`)
	// digitGroups is a number written in groups of three digits.
	digitGroups = regexp.MustCompile(`\d+(?: \d+)+`)
	comma       = regexp.MustCompile(`(\d),(\d)`)
)

// Normalise brings an answer or a term into the form in which terms are
// searched, in this order:
//
//  1. lower case; ё becomes е;
//  2. white space of every kind, no-break spaces included, collapses to one
//     space, and is trimmed;
//  3. "более 5" and "свыше 5" become ">5", "менее 5" becomes "<5";
//  4. the spaces inside a number written in groups of three digits go:
//     "1 234 567" becomes "1234567"; "2023 2024" and "1.5 200" stay two;
//  5. a comma between digits becomes a point: "3,5" becomes "3.5".
//
// Time is linear in the text. Normalising twice changes nothing more.
func Normalise(text string) string {
	text = strings.Map(func(r rune) rune {
		switch r = unicode.ToLower(r); {
		case r == 'ё':
			return 'е'
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Join(strings.Fields(text), " ")
	text = moreThan.ReplaceAllString(text, "${1}>${2}")
	text = lessThan.ReplaceAllString(text, "${1}<${2}")
	text = joinDigits(text)
	for comma.MatchString(text) { // "1,2,3" overlaps: at most two rounds
		text = comma.ReplaceAllString(text, "${1}.${2}")
	}
	return text
}

// joinDigits joins the groups of every number that is not the end of a decimal
// fraction.
func joinDigits(text string) string {
	var b strings.Builder
	done := 0
	for _, at := range digitGroups.FindAllStringIndex(text, -1) {
		head := ""
		run := text[at[0]:at[1]]
		if at[0] > 0 && strings.IndexByte(".,", text[at[0]-1]) >= 0 {
			cut := strings.IndexByte(run, ' ') + 1
			head, run = run[:cut], run[cut:]
		}
		b.WriteString(text[done:at[0]] + head + joinGroups(run))
		done = at[1]
	}
	return b.String() + text[done:]
}

// joinGroups joins a head of up to three digits with the groups of exactly
// three that follow it.
func joinGroups(run string) string {
	parts := strings.Split(run, " ")
	var b strings.Builder
	b.WriteString(parts[0])
	open := len(parts[0]) <= 3
	for _, part := range parts[1:] {
		if open && len(part) == 3 {
			b.WriteString(part)
			continue
		}
		b.WriteString(" " + part)
		open = len(part) <= 3
	}
	return b.String()
}
