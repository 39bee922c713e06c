package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Hash returns the sha256, in hex, of the canonical JSON of
// {"expected":…,"input":…}: what an item asks and what it counts as right. Its
// id and metadata are not part of it; an absent value counts as null.
func Hash(item Item) (string, error) {
	expected, err := Canonical(item.Expected)
	if err != nil {
		return "", fmt.Errorf("expected output of item %q: %w", item.ID, err)
	}
	input, err := Canonical(item.Input)
	if err != nil {
		return "", fmt.Errorf("input of item %q: %w", item.ID, err)
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(`{"expected":`), expected, []byte(`,"input":`), input, []byte("}")} {
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Fingerprint sums up a whole dataset: the sha256 over the lines
// "id TAB hash LF", one per item, sorted by the bytes of the id. Two runs are
// comparable only on equal fingerprints.
//
// It takes the items one by one, already sorted, and keeps none of them. The
// zero value is ready to use; not safe for concurrent use.
type Fingerprint struct {
	sum   hash.Hash
	last  string
	items int
}

// Add takes the next item's id and Hash. It refuses an id that does not come
// after the one before: the fingerprint would depend on the order.
func (f *Fingerprint) Add(id, hash string) error {
	if f.sum == nil {
		f.sum = sha256.New()
	}
	if f.items > 0 && id == f.last {
		return fmt.Errorf("fingerprint: the id %q is there twice", id)
	}
	if f.items > 0 && id < f.last {
		return fmt.Errorf("fingerprint: ids must be sorted, but %q came after %q", id, f.last)
	}
	if _, err := io.WriteString(f.sum, id+"\t"+hash+"\n"); err != nil {
		return err
	}
	f.last = id
	f.items++
	return nil
}

// Items returns how many items were added.
func (f *Fingerprint) Items() int { return f.items }

// Sum returns the fingerprint of what was added so far, in hex. That of no
// items is the sha256 of nothing.
func (f *Fingerprint) Sum() string {
	if f.sum == nil {
		return hexSum(nil)
	}
	return hex.EncodeToString(f.sum.Sum(nil))
}
