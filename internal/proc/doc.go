// Package proc keeps child programs running that answer one line of JSON with
// one line of JSON: a request on standard input, a result on standard output,
// anything for a person on standard error. It knows nothing of what the lines
// mean.
//
// A Pool holds at most N such processes; each works on one request at a time.
// They are started when they are needed and replaced when they end:
//
//  1. Call takes an idle process, or starts one while there are fewer than N.
//  2. It writes the request and waits for one line.
//  3. An answer puts the process back. Anything else (it ended, it flooded, it
//     printed more than one line, its answer was refused, the context ended)
//     kills the process with its whole group and is the error of this Call
//     only; the next Call gets a new process.
//
// Once is for programs that answer a single request and end: one process per
// request, which reads all of its input and then prints its answer.
//
// What a program was given in confidence (secret.Masker) is masked in everything
// that comes back from it: answers, standard error, messages.
//
// It is no sandbox: a program runs with the rights and, but for Config.Withhold,
// the environment of this process, and a grandchild that leaves the process
// group (a daemon) outlives it, though nothing here waits for it. Once finds such
// ones on Linux by a mark in their environment, unless they clear that too.
//
//	pool, err := proc.New(proc.Config{Line: "./extract --flag", Processes: 4})
//	defer pool.Close()
//	answer, err := pool.Call(ctx, []byte(`{"document_text":"…"}`))
package proc
