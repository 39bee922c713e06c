package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// incidental lists, by kind of line, the keys in which exports of two equal runs may differ:
// identifiers, times and resources. In lists, it applies to each element.
func incidental() map[string][]string {
	return map[string][]string{
		"header":     {"run_uid", "name", "started", "dataset.version", "system.endpoint"},
		"experiment": {"id", "url"},
		"outcome": {"attempt", "started", "ended", "latency_ns", "cost_usd",
			"calls.started", "calls.ended", "calls.waited_ns", "calls.cost_usd"},
		"footer": {"ended"},
	}
}

// sameExport compares two exports line by line, without incidental keys.
func sameExport(t *testing.T, want, got string) {
	t.Helper()
	wantLines, gotLines := readExport(t, want), readExport(t, got)
	if len(wantLines) != len(gotLines) {
		t.Fatalf("%s has %d lines, %s has %d", want, len(wantLines), got, len(gotLines))
	}
	for i := range wantLines {
		if !reflect.DeepEqual(wantLines[i], gotLines[i]) { // cmp.Diff of everything would take minutes
			t.Fatalf("line %d of %s is not that of a run that was never interrupted (-want +got):\n%s", i+1, got, cmp.Diff(wantLines[i], gotLines[i]))
		}
	}
}

// readExport reads an export without incidental keys.
func readExport(t *testing.T, path string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	var lines []map[string]any
	for line := range strings.Lines(string(text)) {
		var values map[string]any
		must(t, json.Unmarshal([]byte(line), &values))
		kind, _ := values["kind"].(string)
		for _, key := range incidental()[kind] {
			deleteKey(values, strings.Split(key, "."))
		}
		lines = append(lines, values)
	}
	if len(lines) < 3 {
		t.Fatalf("%s has %d lines", path, len(lines))
	}
	return lines
}

// deleteKey removes the value at the path of keys.
func deleteKey(value any, keys []string) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			deleteKey(element, keys)
		}
	case map[string]any:
		if len(keys) == 1 {
			delete(v, keys[0])
			return
		}
		deleteKey(v[keys[0]], keys[1:])
	}
}
