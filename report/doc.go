// Package report shows results to people and to programs: the summary of a
// run, one item with its matches and near misses, the list of runs. It only
// formats what it is given; it opens no run, computes no score, and is the one
// place where numbers are rounded.
//
// Names, messages, documents and model output are written by strangers.
// Control characters, terminal escapes and invisible direction marks in them
// are shown as \x1b, \u202e and so on, never sent to the terminal.
//
//	err := report.Text(os.Stdout, summary, report.Options{Width: 100, Color: true})
package report
