// Package datasets carries the cases of the bench in the program, so that
// experiment bench runs in any folder. They were written for this project.
package datasets

import _ "embed"

// Smoke are short and long documents with gold spans, one JSON object a line.
//
//go:embed smoke.jsonl
var Smoke string

// Regression are records of eight categories, one JSON object a line.
//
//go:embed regression.jsonl
var Regression string
