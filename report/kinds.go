package report

// Kinds divides groups that are sorted by their kind into one list for each.
func Kinds[G any](groups []G, kind func(G) string) [][]G {
	var lists [][]G
	begin := 0
	for i := range groups {
		if i+1 == len(groups) || kind(groups[i+1]) != kind(groups[begin]) {
			lists = append(lists, groups[begin:i+1])
			begin = i + 1
		}
	}
	return lists
}
