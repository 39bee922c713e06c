// Package experiment runs one configuration over one dataset: it takes every
// item of a Source through a Task and a Scorer into a run file.
//
// It is not about extraction: input, output and expected output are JSON that
// only the harness understands. It does not know Langfuse either: what is
// committed to the run file is published by somebody else.
//
// The steps of Runner.Run, each a function of its own:
//
//  1. plan: list the items into the run file and fix the fingerprint;
//  2. hand out: give the items without an outcome to the workers, in order;
//  3. work: call the task and the scorer, never letting one item stop the rest;
//  4. collect: commit every outcome, then tell the observer;
//  5. finish: write the footer.
package experiment
