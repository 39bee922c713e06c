package seed

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// draw takes n candidates at random, as many of each stratum as its share of all
// asks for: n·size/all rounded down, what is left over to the largest
// remainders, of equals to the first stratum by name. Which ones are drawn
// depends on the seed and on the set of ids, not on their order; they come back
// in the order given. n ≥ len(list) takes all.
func draw(list []candidate, n int, seed uint64) []candidate {
	if n >= len(list) {
		return list
	}
	strata := map[string][]string{}
	for _, c := range list {
		strata[c.stratum] = append(strata[c.stratum], c.id)
	}
	shares := share(strata, n, len(list))
	rng := rand.New(rand.NewPCG(seed, 0))
	drawn := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(strata)) {
		ids := strata[name]
		slices.Sort(ids)
		rng.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
		for _, id := range ids[:shares[name]] {
			drawn[id] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(c candidate) bool { return !drawn[c.id] })
}

// share divides n among strata by their sizes.
func share(strata map[string][]string, n, all int) map[string]int {
	shares := map[string]int{}
	names := slices.Sorted(maps.Keys(strata))
	left := n
	for _, name := range names {
		shares[name] = n * len(strata[name]) / all
		left -= shares[name]
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(n*len(strata[b])%all, n*len(strata[a])%all)
	})
	for _, name := range names[:left] {
		shares[name]++
	}
	return shares
}

// stratumOf returns the value by which a trace is sorted.
func stratumOf(trace langfuse.Trace, path Path) string {
	metadata, err := dataset.Decode(trace.Metadata)
	if err != nil {
		return "" // no metadata
	}
	value, ok := path.Find(metadata)
	if !ok {
		return ""
	}
	if text := spelled(value); text != "" {
		return text
	}
	return string(dataset.CanonicalValue(value))
}
