package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"

	"extraction-experiment/dataset"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/wholefile"
)

// itemsOf gives the items of a file. A file of questions, as answers run takes
// it, is read as that.
func itemsOf(ctx context.Context, path string) (iter.Seq2[dataset.Located, error], error) {
	asks, err := asksQuestions(ctx, path)
	if err != nil || !asks {
		return dataset.ReadFile(ctx, path), err
	}
	questions, err := answers.ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	return func(yield func(dataset.Located, error) bool) {
		for _, item := range questions.Items {
			if !yield(dataset.Located{Item: item, File: path}, nil) {
				return
			}
		}
	}, nil
}

// asksQuestions reports whether the first line of a JSONL file is a question
// rather than an item.
func asksQuestions(ctx context.Context, path string) (bool, error) {
	if format, err := dataset.FormatOf(path); err != nil || format != dataset.JSONL {
		return false, err
	}
	f, err := wholefile.Open(ctx, path)
	if err != nil {
		return false, cli.Usage("reading items: %w", err)
	}
	defer f.Close() // only read: nothing can be lost
	lines := bufio.NewScanner(io.LimitReader(f, answers.MaxLine))
	lines.Buffer(nil, answers.MaxLine)
	for lines.Scan() {
		line := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\xef\xbb\xbf")))
		if len(line) > 0 {
			return hasQuestion(line, "input", "document_text"), nil
		}
	}
	return false, nil // what is wrong with the file says who reads it
}

// hasQuestion reports whether an object has a question, and none of the keys
// that stand for something else.
func hasQuestion(raw []byte, others ...string) bool {
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return false
	}
	for _, key := range others {
		if _, there := values[key]; there {
			return false
		}
	}
	_, asks := values["question"]
	return asks
}

// question says of an item whether it is a question, and what is odd or wrong
// with it then.
func question(item dataset.Item) (is bool, odd []string, err error) {
	if !hasQuestion(item.Input, "document_text", "text") {
		return false, nil, nil
	}
	asked, err := answers.ReadItem(item)
	return true, asked.Odd(), err
}
