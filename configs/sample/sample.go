// Package sample holds the dataset extraction-eval: invented documents in
// several forms and languages, annotated by hand with the entities and
// relationships that a careful reader finds in them. It is what a first run
// works on when nobody has a dataset yet, and small enough to be read in full.
//
// It is not a benchmark: the items are few, were written for this project, and
// are public, so that a score on them says nothing about your own documents.
// The README beside this file is the annotation guideline.
//
// The data are JSON Lines, one item a line, in the wire form of a Langfuse
// dataset item:
//
//	{"id": "…", "input": {"document_text": "…", …}, "expectedOutput": {…}, "metadata": {…}}
//
// Reading all of it:
//
//	for sc := bufio.NewScanner(sample.Open()); sc.Scan(); {
//		use(sc.Bytes())
//	}
//
// The longest line is below 64 KiB, the limit of a bufio.Scanner.
package sample

import (
	_ "embed"
	"io"
	"strings"
)

// Name is the name of the dataset, in Langfuse and on the command line.
const Name = "extraction-eval"

// Description says in one line what the dataset is; it is what Langfuse shows
// beside the name.
const Description = "Invented documents in five languages, from two sentences to several pages, " +
	"annotated by hand with entities and relationships"

// FileName is the name of the data file in this folder.
const FileName = "extraction-eval.jsonl"

//go:embed extraction-eval.jsonl
var lines string

// Open returns a reader of the whole dataset from its beginning. Every call
// returns a reader of its own, which needs no closing; safe for concurrent use.
func Open() io.Reader {
	return strings.NewReader(lines)
}
