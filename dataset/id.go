package dataset

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// identify checks the id, or derives one.
func identify(located *Located) error {
	if located.ID != "" {
		if err := ValidID(located.ID); err != nil {
			return wrong(fieldID, "%v", err)
		}
		return nil
	}
	if located.Input == nil {
		return wrong(fieldID, "is missing, and there is no input to derive one from")
	}
	id, err := DeriveID(located.Item)
	if err != nil {
		return wrong(fieldInput, "%v", err)
	}
	located.ID, located.DerivedID = id, true
	return nil
}

// MaxID is the longest id of an item, in characters: the limit of Langfuse.
const MaxID = 255

// ValidID says why an id cannot be used: it is empty, too long, or holds
// control characters or bytes that are not UTF-8.
func ValidID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty")
	case !utf8.ValidString(id):
		return errors.New("is not valid UTF-8")
	case utf8.RuneCountInString(id) > MaxID:
		return fmt.Errorf("has %d characters, at most %d are allowed", utf8.RuneCountInString(id), MaxID)
	case strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }):
		return fmt.Errorf("%q holds control characters", id)
	}
	return nil
}

// DeriveID makes an id of the canonical form of the input alone, so that it
// depends neither on the order of a file nor on the gold: correcting the
// expected output updates the item instead of making another. Two items with
// equal inputs get equal ids.
func DeriveID(item Item) (string, error) {
	canonical, err := Canonical(item.Input)
	if err != nil {
		return "", err
	}
	return "item-" + hexSum(canonical)[:16], nil
}

// idHash stands for an id in memory: 128 bits of its sha256.
type idHash [16]byte

func hashID(id string) idHash {
	sum := sha256.Sum256([]byte(id))
	return idHash(sum[:16])
}
