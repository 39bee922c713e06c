package dataset_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/dataset"
)

// The items of a file are read, and identified by a fingerprint, whatever their order is.
func Example() {
	file := strings.NewReader(`{"id": "b", "document_text": "Bern", "metadata": {"lang": "de"}}
{"id": "a", "document_text": "Oslo", "metadata": {"lang": "no"}}`)
	var items []dataset.Item
	for located, err := range dataset.Read(file, dataset.JSONL, "items.jsonl") {
		if err != nil {
			fmt.Println(err)
			return
		}
		items = append(items, located.Item)
	}
	slices.SortFunc(items, func(a, b dataset.Item) int { return cmp.Compare(a.ID, b.ID) })
	var fingerprint dataset.Fingerprint
	for _, item := range items {
		hash, err := dataset.Hash(item)
		if err == nil {
			err = fingerprint.Add(item.ID, hash)
		}
		fmt.Println(item.ID, string(item.Input), err)
	}
	fmt.Println(fingerprint.Sum()[:8])
	// Output:
	// a {"document_text":"Oslo"} <nil>
	// b {"document_text":"Bern"} <nil>
	// 70612b94
}
