package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"extraction-experiment/dataset"
)

// Additions returns the lines of a pack of regression records that are to be
// appended to a dataset, each with its end. All records of both files are
// validated; a caseId that the dataset has already, and a record with the
// document, instructions and answer of another, are duplicates. The error has
// exit code 64 and lists everything. Nothing is written.
func Additions(ctx context.Context, opt Options, pack, target string) (lines []byte, records int, err error) {
	fresh, err := Read(ctx, opt, pack)
	if err != nil {
		return nil, 0, err
	}
	var there []Case
	if _, err := os.Stat(target); err == nil {
		if there, err = Read(ctx, Options{}, target); err != nil {
			return nil, 0, fmt.Errorf("the dataset itself cannot be used: %w", err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, 0, &UsageError{err}
	}
	var problems dataset.Problems
	ids, contents := map[string]Case{}, map[string]Case{}
	for _, c := range there {
		ids[c.CaseID], contents[c.content()] = c, c
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, c := range fresh {
		switch other, same := contents[c.content()]; {
		case !c.Regression():
			problems.Add(c.problem("it is a smoke case, a pack has regression records"))
		case ids[c.CaseID].CaseID != "":
			problems.Add(c.problem(fmt.Sprintf("duplicate caseId %q: %s line %d has it", c.CaseID, target, ids[c.CaseID].Line)))
		case same:
			problems.Add(c.problem(fmt.Sprintf("the same record as %q in %s line %d", other.CaseID, other.File, other.Line)))
		default:
			problems.Add(enc.Encode(c))
		}
		contents[c.content()] = c
	}
	if err := problems.Err(); err != nil {
		return nil, 0, err
	}
	return b.Bytes(), len(fresh), nil
}

func (c Case) problem(msg string) error {
	return &dataset.SyntaxError{File: c.File, Line: c.Line, Msg: msg}
}

// content identifies what a case tests.
func (c Case) content() string {
	return fmt.Sprintf("%q %q %q", c.DocumentText, c.Instructions, c.ProviderResponseText)
}
