package scoring

// disjointSet keeps things in groups that can be joined.
type disjointSet struct{ parent []int }

func newDisjointSet(n int) *disjointSet {
	parent := make([]int, n)
	for i := range parent {
		parent[i] = i
	}
	return &disjointSet{parent}
}

func (d *disjointSet) find(i int) int {
	for d.parent[i] != i {
		d.parent[i] = d.parent[d.parent[i]]
		i = d.parent[i]
	}
	return i
}

// join puts both into one group; its root is the smaller of the two roots.
func (d *disjointSet) join(i, j int) {
	i, j = d.find(i), d.find(j)
	d.parent[max(i, j)] = min(i, j)
}
