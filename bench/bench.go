// Package bench measures how stable and well-formed extraction is: whether every
// extracted record has the right shape, whether it quotes the document at the
// offsets that it claims, and whether repeated trials extract the same.
//
// It does not say whether what was extracted is right (that is package scoring);
// its cases come with at most a few spans that must be found and with how many
// records are expected.
//
// The steps are
//
//  1. Read reads and validates the cases, all of them before anything runs;
//  2. Run gives them to experiment.Run, several trials, into a run file: answers
//     are those stored with the cases, or an Answerer's (a model by Asking, a
//     team's pipeline by External, an extractor by Extracting);
//  3. every answer is taken apart into records, each checked against the
//     case's schema and against the document;
//  4. Measure makes the metrics of a run file, and Check judges them by gates.
//
// For example:
//
//	report, err := bench.Run(ctx, bench.Config{Datasets: []string{"smoke.jsonl"}})
//	violations := bench.Check(report, bench.Gates())
package bench

import (
	"cmp"
	"context"
	_ "embed" // the texts of the built-in prompt
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/runstore"
)

// Name is how run files call this harness.
const Name = "bench"

// Version changes when the same answers could give other metrics.
const Version = "3"

// Mode says what repeated trials are for.
type Mode string

// The modes.
const (
	// DeterministicMode answers from what is stored with the cases.
	DeterministicMode Mode = "deterministic"
	// VarianceMode repeats: at least two trials.
	VarianceMode Mode = "variance"
)

// Config says what to run. Datasets or Cases are needed; every other zero value
// is usable.
type Config struct {
	// Datasets are files of cases; Cases are cases in memory, added to them.
	Datasets []string
	Cases    []Case
	Options  Options
	// Mode is DeterministicMode where it is empty and there is no Answerer, else
	// VarianceMode.
	Mode Mode
	// Trials is how often each case is answered; 0 means 1, and 5 in mode
	// VarianceMode.
	Trials int
	// Answerer answers the cases; nil answers from what is stored with them.
	// Cases that expect a failure are about the stored answer: an Answerer is
	// not asked about them, and a warning says how many there are.
	Answerer Answerer
	// System describes the Answerer for the run's header.
	System outcome.System
	// Out is the run file; empty keeps none.
	Out string
	// Resume continues with the run of that file: the same cases, mode, trials and
	// system. RetryFailed then also asks again about what nobody answered.
	Resume, RetryFailed bool
	// Name of the run; empty is the name of the file. Runner names the program and its
	// version for the run's header.
	Name, Runner string

	Concurrency int           // 0 means 4
	Timeout     time.Duration // of one case; 0 means 5 minutes
	// Stop, when closed, ends the run after the cases under way; calls that
	// wait for a model's limits are given up.
	Stop     <-chan struct{}
	Observer experiment.Observer
}

// Run takes every case through the trials and returns what the run comes to.
//
// Everything is validated before a trial runs: the error joins all problems of
// the Config and of the datasets (exit code 64). A case that fails is part of
// the report. After experiment.ErrInterrupted the report says what there is.
func Run(ctx context.Context, cfg Config) (report Report, err error) {
	leftOut, err := cfg.complete(ctx)
	if err != nil {
		return Report{}, err
	}
	if cfg.Out == "" {
		dir, err := os.MkdirTemp("", "bench-*")
		if err != nil {
			return Report{}, fmt.Errorf("making room for the run: %w", err)
		}
		defer os.RemoveAll(dir)
		cfg.Out = filepath.Join(dir, "bench"+runstore.Extension)
	}
	var items source
	for _, c := range cfg.Cases {
		item, err := c.item()
		if err != nil {
			return Report{}, cli.Usage("case %s: %w", c.CaseID, err)
		}
		items = append(items, item)
	}
	header := cfg.header(leftOut)
	// A run that is resumed continues with the same cases only.
	if header.Dataset.Fingerprint, err = experiment.Fingerprint(ctx, items); err != nil {
		return Report{}, err
	}
	result, ran := experiment.Run(ctx, experiment.Config{
		Header: header, Path: cfg.Out, Source: items, Task: task{cfg.Answerer}, Scorer: scorer{},
		Concurrency: cfg.Concurrency, Timeout: cfg.Timeout, Stop: cfg.Stop, Observer: cfg.Observer,
		Resume: cfg.Resume, Retry: cfg.RetryFailed,
	})
	if ran != nil && !errors.Is(ran, experiment.ErrInterrupted) {
		return Report{}, ran
	}
	run, err := runstore.Load(result.Path)
	if err != nil {
		return Report{}, errors.Join(ran, err)
	}
	report, err = Measure(context.WithoutCancel(ctx), run)
	return report, errors.Join(ran, err, run.Close())
}

// complete reads the cases and fills in what was left to the bench. Cases that
// expect a failure, which is that of their stored answer, are left out for an
// Answerer: it says how many.
func (cfg *Config) complete(ctx context.Context) (leftOut int, err error) {
	var problems []error
	usage := func(format string, args ...any) { problems = append(problems, cli.Usage(format, args...)) }
	if cfg.Mode == "" && cfg.Answerer == nil {
		cfg.Mode = DeterministicMode
	}
	cfg.Mode = cmp.Or(cfg.Mode, VarianceMode)
	switch {
	case cfg.Mode != DeterministicMode && cfg.Mode != VarianceMode:
		usage("there is no mode %q; there are %s and %s", cfg.Mode, DeterministicMode, VarianceMode)
	case cfg.Mode == DeterministicMode && cfg.Answerer != nil:
		usage("the mode %s answers from what is stored with the cases: leave the model out, or choose %s",
			DeterministicMode, VarianceMode)
	case cfg.Mode == VarianceMode && cfg.Trials == 1:
		usage("the mode %s compares trials: one is not enough", VarianceMode)
	}
	if cfg.Trials < 0 || cfg.Trials > 1000 {
		usage("%d trials are impossible: at most 1000", cfg.Trials)
	}
	cfg.Trials = cmp.Or(cfg.Trials, map[Mode]int{DeterministicMode: 1, VarianceMode: 5}[cfg.Mode])
	if len(cfg.Datasets) > 0 || len(cfg.Cases) == 0 {
		read, err := Read(ctx, cfg.Options, cfg.Datasets...)
		problems = append(problems, err)
		cfg.Cases = slices.Concat(cfg.Cases, read)
	}
	if cfg.Answerer == nil {
		cfg.System = outcome.System{Model: "stored", Provider: "stored"}
		return 0, errors.Join(problems...)
	}
	all := len(cfg.Cases)
	cfg.Cases = slices.DeleteFunc(slices.Clone(cfg.Cases), func(c Case) bool {
		return c.Expected != nil && c.Expected.EmptyResultKind == EmptyByFailure
	})
	if all > 0 && len(cfg.Cases) == 0 {
		usage("every case is about its stored answer: a system has nothing to answer")
	}
	return all - len(cfg.Cases), errors.Join(problems...)
}

// The keys of the run's metadata.
const (
	keyMode    = "mode"
	keyLeftOut = "left_out"
	keySources = "cases" // how many were read from where
)

// header describes the run.
func (cfg Config) header(leftOut int) outcome.Header {
	about := map[string]string{keyMode: string(cfg.Mode)}
	if leftOut > 0 {
		about[keyLeftOut] = fmt.Sprint(leftOut)
	}
	counts, files := map[string]int{}, cli.Each(cfg.Cases, func(c Case) string { return c.File })
	for _, file := range files {
		counts[file]++
	}
	about[keySources] = strings.Join(cli.Each(slices.Compact(files), func(file string) string {
		return fmt.Sprintf("%d of %s", counts[file], cmp.Or(file, "the caller"))
	}), ", ")
	return outcome.Header{
		Name:    cmp.Or(cfg.Name, strings.TrimSuffix(filepath.Base(cfg.Out), filepath.Ext(cfg.Out))),
		Harness: Name, Dataset: outcome.Dataset{Name: "bench"}, System: cfg.System, Trials: cfg.Trials,
		Scorer:      outcome.Scorer{Version: "bench-" + Version, Primary: CaseSuccess},
		Environment: "bench", Metadata: about, Runner: cfg.Runner,
	}
}

// source has the cases as items.
type source []dataset.Item

// Pages yields all of them at once.
func (s source) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) { yield(s, nil) }
}

// task answers a case: from what is stored with it, or by an Answerer.
type task struct{ answerer Answerer }

// Do returns an Answer. An answer that cannot be used is a failure inside of it;
// an error of the Answerer is returned as it is.
func (t task) Do(ctx context.Context, item experiment.Item) (result experiment.TaskResult, err error) {
	var in input
	if err := json.Unmarshal(item.Input, &in); err != nil {
		return result, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	r, err := newReader(in.DocumentText, in.TargetSchema)
	if err != nil {
		return result, &outcome.Failure{Class: outcome.Item, Message: "targetSchema: " + err.Error()}
	}
	var a Answer
	if t.answerer == nil {
		a = r.stored(in.ProviderResponseText)
	} else {
		var text string
		in.OffsetMode = offsetMode(in.TargetSchema)
		text, result.Calls, err = t.answerer.Answer(ctx, in.Question)
		for _, call := range result.Calls {
			result.Warnings = append(result.Warnings, call.Warnings...)
		}
		if err != nil {
			return result, err
		}
		a = r.plain(text, 1)
	}
	result.Output, err = json.Marshal(a)
	return result, err
}

// Question is what is asked about a case: neither gold nor the stored answer.
type Question struct {
	DocumentText string `json:"documentText"`
	Instructions string `json:"instructions"`
	// TargetSchema is the JSON Schema of a record.
	TargetSchema json.RawMessage `json:"targetSchema"`
	// OffsetMode is how offsets are to be counted: as the schema says, else
	// ModeUTF16. An answer may state another.
	OffsetMode string `json:"-"`
}

// Answerer is the system under test. Answer returns the text of its answer,
// {"extractions": [...]}, as the system gave it: what is wrong with it is for
// the bench to judge. An error means that there is no answer; an
// *outcome.Failure in its chain says its class. It is called by many goroutines
// at once.
type Answerer interface {
	Answer(ctx context.Context, q Question) (text string, calls []outcome.Call, err error)
}

// texts are those that the schema of a record lets a property be.
func texts(schema json.RawMessage, property string) (list []string) {
	for enum := range dataset.ValuesAt(schema, property+".enum") {
		for text := range textutil.JSONElements(enum) {
			list = append(list, textutil.JSONText(text))
		}
	}
	for text := range dataset.ValuesAt(schema, property+".const") {
		list = append(list, textutil.JSONText(text))
	}
	return slices.DeleteFunc(list, func(text string) bool { return text == "" })
}

// offsetMode is the first that the schema of a record names, in span or at the top.
func offsetMode(schema json.RawMessage) string {
	modes := texts(schema, "properties.span.properties.offsetMode")
	for _, mode := range append(modes, texts(schema, "properties.offsetMode")...) {
		if _, _, known := unitOf(mode); known {
			return mode
		}
	}
	return ModeUTF16
}

// document makes a document of the question, for a system that extracts
// entities: the classes that the schema allows are the types to extract,
// described by the instructions.
func (q Question) document() extraction.Document {
	doc := extraction.Document{Text: q.DocumentText, Objects: map[string]extraction.ObjectSchema{}}
	for _, class := range texts(q.TargetSchema, "properties.extractionClass") {
		doc.Objects[class] = extraction.ObjectSchema{Name: class, Description: q.Instructions}
	}
	return doc
}

var (
	//go:embed prompt_system.txt
	promptSystem string
	//go:embed prompt_user.txt
	promptUser string
)

// Prompt returns the prompt that models are asked with: the instructions and the
// schema of the case, and the form of a record with quote and offsets.
func Prompt() pipeline.Template {
	return pipeline.Template{Name: Name, Messages: []pipeline.TemplateMessage{
		{Role: pipeline.RoleSystem, Content: promptSystem}, {Role: pipeline.RoleUser, Content: promptUser},
	}}
}

// Asking asks a language model, once for each case. The schema is a part of the
// prompt and is not enforced by the provider, nor is an answer repaired: what
// the model says is what is measured. It is safe for concurrent use if the model
// is.
type Asking struct {
	Model pipeline.Model
	// Name and Provider are how calls call the model.
	Name, Provider string
}

// Answer returns what the model says; also a refusal and an answer that was cut
// off are answers. Errors are those of the model.
func (a Asking) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	_, unit, _ := unitOf(q.OffsetMode)
	messages, err := pipeline.Compile(Prompt(), pipeline.Vars{Texts: map[string]string{
		"document_text": q.DocumentText, "instructions": q.Instructions, "target_schema": string(q.TargetSchema),
		"offset_mode": q.OffsetMode, "offset_unit": unit,
	}})
	if err != nil {
		return "", nil, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	call := outcome.Call{Name: "extract", Provider: a.Provider, Model: a.Name}
	res, err := pipeline.Record(ctx, a.Model, pipeline.Request{Messages: messages}, &call, time.Now)
	if res.Finish == pipeline.FinishLength {
		call.Warnings = append(call.Warnings, "the answer was cut by the limit of tokens")
	}
	return res.Text, []outcome.Call{call}, err
}

// Extracting answers with what an extractor of entities finds: each mention of
// an entity is a record with its type as the class.
type Extracting struct{ Extractor pipeline.Extractor }

// Answer asks the extractor; errors are its own.
func (e Extracting) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	found, calls, err := e.Extractor.Extract(ctx, q.document())
	if err != nil {
		return "", calls, err
	}
	text, err := json.Marshal(recordsOf(found))
	return string(text), calls, err
}

// recordsOf writes entities as an answer: one record for each mention, as it is
// stated. An entity without mentions is one record without offsets: nothing is
// searched for that the system did not say.
func recordsOf(found extraction.Extraction) any {
	records := []map[string]any{}
	for _, e := range found.Entities {
		attributes := json.RawMessage(cmp.Or(string(e.Properties), `{}`))
		record := map[string]any{"extractionClass": e.Type, "quote": e.Name, "attributes": attributes}
		if len(e.Mentions) == 0 {
			records = append(records, record)
		}
		for _, m := range e.Mentions {
			record = maps.Clone(record)
			record["quote"] = m.Quote
			record["span"] = map[string]any{"offsetMode": ModeRune, "charStart": m.Start, "charEnd": m.End}
			records = append(records, record)
		}
	}
	return map[string]any{"extractions": records}
}

// External asks a team's own pipeline by the protocol of
// docs/pipeline-protocol.md, with "instructions", "target_schema" and
// "offset_mode" in the request. An answer holds "extractions", records as the
// schema asks for, or "entities" whose mentions are the records. It is safe for
// concurrent use.
type External struct{ Asker *provider.External }

// Answer asks once. A reply without a list is an answer that cannot be used, as
// a model's prose is; errors are those of the pipeline.
func (e External) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	doc := q.document()
	reply, calls, err := e.Asker.Ask(ctx, map[string]any{
		"document_text": doc.Text, "document_type": doc.Type, "object_schemas": doc.Objects, "relationship_schemas": struct{}{},
		"allowed_types": []string{}, "available_tags": []string{},
		"instructions": q.Instructions, "target_schema": q.TargetSchema, "offset_mode": q.OffsetMode,
	})
	if err != nil {
		return "", calls, err
	}
	var answer any = reply
	found, _, none := extraction.DecodeExtraction([]byte(`{"entities":` + string(reply["entities"]) + `}`))
	if none == nil && reply["extractions"] == nil {
		answer = recordsOf(found)
	}
	text, err := json.Marshal(answer)
	return string(text), calls, err
}
