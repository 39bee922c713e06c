package chunk

import "extraction-experiment/internal/fold"

// keys brings names into the form in which they are compared, each once. Not
// safe for concurrent use; each merge has its own.
type keys struct{ seen map[string]string }

func newKeys() *keys { return &keys{seen: map[string]string{}} }

// name returns fold.Name, remembered.
func (k *keys) name(s string) string {
	key, ok := k.seen[s]
	if !ok {
		key = fold.Name(s)
		k.seen[s] = key
	}
	return key
}

// typ returns a type in the form in which it is compared.
func (k *keys) typ(s string) string { return fold.Type(s) }
