package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// noError ends the test if err is not nil.
func noError(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustHash(t testing.TB, item Item) string {
	t.Helper()
	h, err := Hash(item)
	noError(t, err)
	return h
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestHash(t *testing.T) {
	item := Item{ID: "a", Input: json.RawMessage(`{ "n": 1.0, "a": "é" }`)}
	if got, want := mustHash(t, item), sha(`{"expected":null,"input":{"a":"é","n":1}}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	item.Expected = json.RawMessage(`[]`)
	if got, want := mustHash(t, item), sha(`{"expected":[],"input":{"a":"é","n":1}}`); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	same := Item{ID: "b", Input: item.Input, Expected: item.Expected, Metadata: json.RawMessage(`{"k":1}`), SourceTraceID: "t"}
	if mustHash(t, same) != mustHash(t, item) {
		t.Error("id, metadata or source changed the hash")
	}
	item.Expected = json.RawMessage(`[`)
	if _, err := Hash(item); err == nil || !strings.Contains(err.Error(), `expected output of item "a"`) {
		t.Errorf("got %v", err)
	}
}

func TestFingerprint(t *testing.T) {
	var f Fingerprint
	if f.Sum() != sha("") {
		t.Errorf("of nothing: %s", f.Sum())
	}
	for _, id := range []string{"B", "a", "é"} { // by bytes
		noError(t, f.Add(id, sha(id)))
	}
	want := sha("B\t" + sha("B") + "\na\t" + sha("a") + "\né\t" + sha("é") + "\n")
	if f.Sum() != want {
		t.Errorf("got %s, want %s", f.Sum(), want)
	}
	for id, message := range map[string]string{"é": "appears twice", "b": `"b" came after "é"`} {
		if err := f.Add(id, "h"); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: got %v", id, err)
		}
	}
	if f.Sum() != want {
		t.Error("a refused item changed the sum")
	}
}

// TestHasher checks that what items share changes no hash.
func TestHasher(t *testing.T) {
	inputs := []string{
		`{"text":"a","schemas":{"b":1.0,"a":{"schemas":[1]}}}`, `{"text":"b","schemas":{"b":1.0,"a":{"schemas":[1]}}}`,
		`{"text":"c","schemas":{"b":1.0,"a":{"schemas":[1]}},"z":1}`, `{"schemas":{"b":1.0,"a":{"schemas":[2]}},"text":"d"}`,
		`{"schemas":{"b":1.0,"a":{"schemas":[1]}}}`, `{"schemas":{"schemas":{"b":1.0,"a":{"schemas":[1]}}}}`,
		`{"a":{"schemas":[1]},"schemas":[1]}`, `{"schemas":[1,2]}`, `{"schemas":[1 ,2]}`, `{"schemas":[1],"schemas":[1,2]}`,
		`[{"schemas":[1]},{"schemas":[1]},{"schemas":[1,2]}]`, `{"schemas":1}`, `{"schemas":12}`, `"schemas"`, ``,
	}
	var hasher Hasher
	for range 3 {
		for _, expected := range inputs {
			for _, input := range inputs {
				item := Item{Input: json.RawMessage(input), Expected: json.RawMessage(expected)}
				if got, err := hasher.Hash(item); err != nil || got != mustHash(t, item) {
					t.Fatalf("%s %s: %s (%v), want %s", input, expected, got, err, mustHash(t, item))
				}
			}
		}
	}
	if _, err := hasher.Hash(Item{Input: json.RawMessage(`{"schemas":[1]`)}); err == nil {
		t.Error("no error for half an object")
	}
}
