package configs

import (
	_ "embed"
	"io"
	"strings"
)

// SampleName is the name of the dataset, in Langfuse and on the command line.
const SampleName = "extraction-eval"

// SampleDescription says in one line what the dataset is; it is what Langfuse shows
// beside the name.
const SampleDescription = "Invented documents in five languages, from two sentences to several pages, " +
	"annotated by hand with entities and relationships"

// SampleFile is the name of the data file in configs/sample.
const SampleFile = "extraction-eval.jsonl"

//go:embed sample/extraction-eval.jsonl
var sampleLines string

// OpenSample returns a reader of the built-in dataset extraction-eval: invented documents
// in several forms and languages, annotated by hand with the entities and relationships
// that a careful reader finds in them. It is no benchmark: the items are few and public.
// The README in configs/sample is the annotation guideline. It reads the whole dataset from its beginning. Every call
// returns a reader of its own, which needs no closing; safe for concurrent use.
func OpenSample() io.Reader {
	return strings.NewReader(sampleLines)
}
