package answers

import (
	"regexp"
	"strconv"
)

// citation is a reference to a page: "стр. N", in brackets or not, any case.
// No letter stands before it: "регистр. 5" cites nothing.
var citation = regexp.MustCompile(`(?i)(?:^|[^\p{L}\p{N}])стр\.[\s\x{00a0}\x{202f}\x{2009}]*(\d+)`)

// maxCitations bounds how many citations of an answer are looked at.
const maxCitations = 1000

// Citations returns the pages that an answer cites as "стр. N", in order; a
// number that is no page of any document is 0. The answer is taken as it is,
// not normalised.
func Citations(answer string) []int {
	var pages []int
	for _, found := range citation.FindAllStringSubmatch(answer, maxCitations) {
		page, err := strconv.Atoi(found[1])
		if err != nil || page > MaxPage {
			page = 0
		}
		pages = append(pages, page)
	}
	return pages
}

// MaxPage is the largest number that a citation may have.
const MaxPage = 1_000_000
