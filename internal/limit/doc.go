// Package limit decides when the next call to a model may begin: as many calls
// at once as the provider takes, no faster than it takes them, not at all while
// it asks to wait, and never again once everything fails for the same reason.
// It knows nothing of models and sends nothing; one Limiter stands for one
// model of one provider and is shared by all that call it.
//
//	limiter, err := limit.New(limit.Config{Most: 32})
//	permit, err := limiter.Acquire(ctx, 1200) // tokens, as estimated
//	// … the call …
//	permit.Done(limit.Result{Kind: limit.Answered, Tokens: 1310})
//
// Acquire waits for four things in turn, callers in the order in which they
// came: the pause that the provider asked for, a place in the window, the
// spacing of the window, and the configured rates per minute. The window is the
// number of calls at once. It begins at 1, grows by one with every answer until
// the first rejection, and from then on shrinks by a tenth or more when a call
// is rejected and grows slowly again after ten answers. Below 1 it stands for
// a part of the time: a window of 0.5 is one call, then a rest of its length.
//
// Time spent in Acquire does not count against a deadline of WithTimeout.
package limit
