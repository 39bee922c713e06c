package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"extraction-experiment/configs"
)

// annotated has the part of a line of the built-in dataset that the oracle reads.
type annotated struct {
	ID    string `json:"id"`
	Input struct {
		Text string `json:"document_text"`
	} `json:"input"`
	Expected struct {
		Entities []json.RawMessage `json:"entities"`
	} `json:"expectedOutput"`
}

// oracle is a pipeline for --pipeline that knows the answers of the built-in dataset and returns
// a share of them, so that scripts can compare runs whose true difference is known:
//
//	oracle -share 0.8                     four of five entities of every item
//	oracle -share 1 -of a,b,c -worse 0.5  all, but half of those three items
func oracle(args []string) int {
	set := flag.NewFlagSet("oracle", flag.ContinueOnError)
	share := set.Float64("share", 1, "share of the entities")
	of := set.String("of", "", "items that are worse")
	worse := set.Float64("worse", 1, "their share")
	fails := set.String("fails", "", "an item that fails")
	if set.Parse(args) != nil {
		return 2
	}
	known := map[string]annotated{}
	for lines := bufio.NewScanner(configs.OpenSample()); lines.Scan(); {
		var item annotated
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		known[item.Input.Text] = item
	}
	requests := bufio.NewScanner(os.Stdin)
	requests.Buffer(nil, 1<<20)
	for requests.Scan() {
		var request struct {
			ID   string `json:"id"`
			Text string `json:"document_text"`
		}
		if err := json.Unmarshal(requests.Bytes(), &request); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		item, part := known[request.Text], *share
		if slices.Contains(strings.Split(*of, ","), item.ID) {
			part = *worse
		}
		kept := item.Expected.Entities[:int(math.Ceil(part*float64(len(item.Expected.Entities))))]
		answer := map[string]any{"id": request.ID, "entities": append([]json.RawMessage{}, kept...), "calls": []any{}}
		if item.ID == *fails {
			answer = map[string]any{"id": request.ID, "error": map[string]string{"class": "timeout", "message": "no answer"}}
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return 1
		}
	}
	return 0
}
