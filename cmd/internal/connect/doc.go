// Package connect gives a command its Langfuse: the one that the LANGFUSE_*
// variables name, or, where none of them is set, the embedded one of this
// folder. It never falls back from the first to the second.
//
// The embedded server of a folder keeps its data in .experiment/langfuse.db.
// While "experiment serve" runs there, other commands talk to it; otherwise
// each opens the store for as long as it runs. All who have it open do so in one
// mode.
package connect
