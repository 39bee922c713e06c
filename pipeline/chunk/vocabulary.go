package chunk

// Vocabulary says which relationship types state the same fact. It has the
// shape of scoring.Vocabulary, into which it converts. The zero value knows
// nothing: only equal statements are one.
type Vocabulary struct {
	// Inverse pairs: a(x, y) says what b(y, x) says; not transitive.
	Inverse [][2]string
	// Symmetric types: a(x, y) says what a(y, x) says.
	Symmetric []string
}

// swaps returns, by type key, the types that say the same with swapped ends.
func (v Vocabulary) swaps(k *keys) map[string][]string {
	swaps := map[string][]string{}
	for _, pair := range v.Inverse {
		a, b := k.typ(pair[0]), k.typ(pair[1])
		swaps[a] = append(swaps[a], b)
		if a != b {
			swaps[b] = append(swaps[b], a)
		}
	}
	for _, t := range v.Symmetric {
		key := k.typ(t)
		swaps[key] = append(swaps[key], key)
	}
	return swaps
}
