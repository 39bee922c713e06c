package scoring

import "fmt"

// aliasing knows which names an end of an expected relationship stands for:
// an end that is a name of an expected entity stands for all its names.
type aliasing struct {
	entities []entity
	byName   map[int][]int    // entities that have several names
	together map[string][]int // names of several entities
}

func newAliasing(entities []entity) *aliasing {
	a := &aliasing{entities, map[int][]int{}, map[string][]int{}}
	for i, e := range entities {
		if len(e.names) < 2 {
			continue
		}
		for _, name := range e.names {
			a.byName[name] = append(a.byName[name], i)
		}
	}
	return a
}

// names returns all names that an end stands for, sorted. Ends of the same
// entities share one list: an entity may have very many names.
func (a *aliasing) names(end int) []int {
	owners := a.byName[end]
	switch len(owners) {
	case 0:
		return []int{end}
	case 1:
		return a.entities[owners[0]].names
	}
	key := fmt.Sprint(owners)
	if _, known := a.together[key]; !known {
		var all []int
		for _, i := range owners {
			all = append(all, a.entities[i].names...)
		}
		a.together[key] = sortedSet(all)
	}
	return a.together[key]
}
