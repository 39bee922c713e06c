package prompt

import (
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/nearest"
)

// Check refuses, before any item is run, a template that cannot work: without
// messages or with a role that no model has, too large, with an identifier that
// neither the document nor a variable fills, with a message placeholder that is
// not among the given names, or one that never shows the document
// (document_text, or a variable whose path is that of the text). Variables are
// checked as well: two of one name, names and paths that cannot be. One that
// the template does not use is no problem. The error, *Error, holds every
// problem. Time is linear in the template.
func (t Template) Check(vars []Var, placeholders []string) error {
	problems := t.wellFormed()
	filled := Known()
	shows := []string{DocumentText}
	for _, v := range vars {
		if problem := v.problem(); problem != "" {
			problems = append(problems, problem)
			continue
		}
		if slices.Contains(filled, v.Name) {
			problems = append(problems, fmt.Sprintf("the variable %q is given twice", v.Name))
		}
		filled = append(filled, v.Name)
		if v.ShowsDocument() {
			shows = append(shows, v.Name)
		}
	}
	used := t.Identifiers()
	problems = append(problems, missing("the identifier {{%s}}", used, filled)...)
	problems = append(problems, missing("the message placeholder %q", t.Placeholders(), placeholders)...)
	if !slices.ContainsFunc(used, func(name string) bool { return slices.Contains(shows, name) }) {
		problems = append(problems, "the prompt never shows the document: write {{document_text}} where its text belongs")
	}
	if len(problems) > 0 {
		return &Error{Problems: problems}
	}
	return nil
}

// missing says of each name that it is not among those that are filled.
func missing(what string, names, filled []string) []string {
	const most = 20
	var problems []string
	for _, name := range names {
		if slices.Contains(filled, name) {
			continue
		}
		if len(problems) == most {
			return append(problems, "and more that nothing fills")
		}
		known := "there are none"
		if len(filled) > 0 {
			known = "known are " + strings.Join(filled, ", ")
		}
		meant := ""
		if near := nearest.Word(name, filled); near != "" {
			meant = fmt.Sprintf(" (did you mean %q?)", near)
		}
		problems = append(problems, fmt.Sprintf(what+" is filled by nothing%s: %s", shown(name), meant, known))
	}
	return problems
}
