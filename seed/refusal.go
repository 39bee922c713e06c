package seed

import "fmt"

// refusal says why no item is made of a trace.
type refusal struct {
	kind    Kind
	path    string // of the item to be, where one value is to blame
	reason  string
	private string // the reason without excerpts
	item    string // id of the item that was judged wrong
}

func (r *refusal) Error() string { return r.reason }

func refuse(kind Kind, path, format string, args ...any) error {
	return &refusal{kind, path, fmt.Sprintf(format, args...), fmt.Sprintf(format, withheld(args)...), ""}
}
