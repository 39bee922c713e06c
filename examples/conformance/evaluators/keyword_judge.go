// Command keyword_judge is a sample evaluator that looks for the words of the expected output in
// the answer. It reads one JSON object from standard input, and prints one with score, hits and
// misses.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"unicode"
)

type request struct {
	CandidateAnswer string `json:"candidate_answer"`
	ReferenceAnswer string `json:"reference_answer"`
}

type verdict struct {
	Score  float64  `json:"score"`
	Hits   []string `json:"hits"`
	Misses []string `json:"misses"`
}

func main() {
	var r request
	err := json.NewDecoder(os.Stdin).Decode(&r)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(judge(r))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "keyword_judge:", err)
		os.Exit(1)
	}
}

// judge returns the share of the expected words that the answer has, rounded to two decimals.
func judge(r request) verdict {
	v := verdict{Hits: []string{}, Misses: []string{}}
	answer := map[string]bool{}
	for _, word := range words(r.CandidateAnswer) {
		answer[word] = true
	}
	expected := words(r.ReferenceAnswer)
	for _, word := range expected {
		if answer[word] {
			v.Hits = append(v.Hits, "has "+word)
		} else {
			v.Misses = append(v.Misses, "lacks "+word)
		}
	}
	if len(expected) > 0 {
		v.Score = math.Round(100*float64(len(v.Hits))/float64(len(expected))) / 100
	}
	return v
}

func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
