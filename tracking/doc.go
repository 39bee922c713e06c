// Package tracking is the standing of a run in Langfuse: Dataset lists the
// items of a Langfuse dataset for a run, Publisher carries what a run file holds
// into Langfuse, and Verify reads it back and compares. Nothing else of the
// project writes runs there.
//
// What is sent is a pure function of the header, the experiment id and the
// outcome: ids are derived, times are those of the run file. Sending anything
// twice therefore changes nothing that a reader sees, and publishing, resuming
// and repairing are the same call:
//
//	p, err := tracking.NewPublisher(tracking.Config{Client: client, Run: run, …})
//	err = p.Follow(ctx, finished) // returns when all is sent, or cannot be
//	verdict, err := tracking.Verify(ctx, tracking.VerifyConfig{Client: client, Run: run.Reader, …})
//
// Repair takes acknowledgements of what Langfuse does not have back in the run
// file, and publishes.
package tracking
