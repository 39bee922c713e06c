// Package outcome holds the words that every harness shares: what a run is
// (Header, Footer), what happened to one item (Outcome, with its Calls and
// Scores), and what the run comes to (Summary). It is data and arithmetic
// only: nothing is read, written or sent here.
//
// An item that failed is an Outcome like any other, with a Class and a
// Failure. An undefined score has a nil Value and a Reason; it is never NaN
// and never a silent 0.
package outcome
