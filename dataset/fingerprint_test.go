package dataset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func mustHash(t testing.TB, item Item) string {
	t.Helper()
	h, err := Hash(item)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := f.Add(id, sha(id)); err != nil {
			t.Fatal(err)
		}
	}
	want := sha("B\t" + sha("B") + "\na\t" + sha("a") + "\né\t" + sha("é") + "\n")
	if f.Sum() != want || f.Items() != 3 {
		t.Errorf("got %s of %d, want %s", f.Sum(), f.Items(), want)
	}
	for id, message := range map[string]string{"é": "is there twice", "b": `"b" came after "é"`} {
		if err := f.Add(id, "h"); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: got %v", id, err)
		}
	}
	if f.Sum() != want {
		t.Error("a refused item changed the sum")
	}
}

// FuzzHasher: what a Hasher remembers changes nothing.
func FuzzHasher(f *testing.F) {
	f.Add(`{"b":1.50,"a":["\u00e9",{"a":null,"a":2}]}`, "\\u0061")
	f.Fuzz(func(t *testing.T, value, key string) {
		pad := strings.Repeat("x", minRemembered)
		raw := json.RawMessage(`{"pad":"` + pad + `","` + key + `":[` + value + `,"` + pad + `"], "a" : ` + value + `}`)
		var h Hasher
		want, refused := Canonical(raw)
		for range 2 {
			got, err := h.canonical(raw)
			if (err == nil) != (refused == nil) || !bytes.Equal(got, want) {
				t.Fatalf("%s: %v, %s: %v", got, err, want, refused)
			}
		}
	})
}

func TestHasher_isBounded(t *testing.T) {
	var h Hasher
	for i := range 3 * remembered {
		_, err := h.Hash(Item{ID: "a", Input: json.RawMessage(fmt.Sprintf(`{"same":"%s","n":"%d%s"}`, strings.Repeat("s", minRemembered), i, strings.Repeat("x", minRemembered)))})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(h.known) != remembered || len(h.order) != remembered || h.known[`"`+strings.Repeat("s", minRemembered)+`"`] == nil {
		t.Errorf("%d values are known, %d in order", len(h.known), len(h.order))
	}
}
