// Package bench measures how stable and well-formed extraction is: whether each extracted record
// has the right shape, whether it quotes the document at its stated offsets, and whether
// repeated trials extract the same.
//
// It does not measure whether the extractions are right; package scoring does. A case has at
// most a few spans that must be extracted, or the expected number of records.
//
// The steps are:
//
//  1. Read reads and validates all cases.
//  2. Run gives them to experiment.Run, once for each trial, with a run file. Answers are
//     stored with the cases or come from an Answerer: a model (ModelAnswerer), a team's pipeline
//     (PipelineAnswerer) or an extractor (ExtractorAnswerer).
//  3. Each answer is split into records, which are checked against the schema of the case
//     and against the document.
//  4. Measure computes the metrics of a run file, and Check compares them with the gates.
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
	"io/fs"
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

// Name is the name of the harness in run files.
const Name = "bench"

// Version changes when the same answers could give other metrics.
const Version = "3"

// Mode is the purpose of repeated trials.
type Mode string

// Modes.
const (
	// DeterministicMode uses the answers stored with the cases.
	DeterministicMode Mode = "deterministic"
	// VarianceMode compares trials; it needs at least two.
	VarianceMode Mode = "variance"
)

// Config configures Run. Datasets or Cases are required; the zero value of every other field is
// usable.
type Config struct {
	// Datasets are files of cases; Cases are further cases.
	Datasets []string
	Cases    []Case
	Strict   bool // see Read
	// Mode defaults to DeterministicMode without an Answerer, else to VarianceMode.
	Mode Mode
	// Trials is how often each case is answered; 0 means 1, or 5 in VarianceMode.
	Trials int
	// Answerer answers the cases; nil uses the answers stored with them. With an Answerer, Run
	// leaves out cases that expect the stored answer to fail, and a warning gives their number.
	Answerer Answerer
	// System describes the Answerer in the header of the run.
	System outcome.System
	// Out is the path of the run file; empty keeps none.
	Out string
	// Resume continues the run in Out with the same cases, mode, trials and system. RetryFailed
	// also repeats calls that failed.
	Resume, RetryFailed bool
	// Name is the name of the run; empty means the base name of Out. Runner is the program and
	// its version, for the header.
	Name, Runner string

	Concurrency int           // 0 means 4
	Timeout     time.Duration // of one case; 0 means 5 minutes
	// Stop, when closed, ends the run after the cases in progress. Calls that wait for a rate
	// limit are given up.
	Stop     <-chan struct{}
	Observer experiment.Observer
}

// Run answers every case in every trial and returns the report.
//
// It validates everything first: the error joins all problems of the Config and of the datasets
// (exit code 64). Cases that fail are part of the report. With experiment.ErrInterrupted, the
// report covers the outcomes so far.
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
	var items experiment.Items
	for _, c := range cfg.Cases {
		item, err := c.item()
		if err != nil {
			return Report{}, cli.Usage("case %s: %w", c.CaseID, err)
		}
		items = append(items, item)
	}
	header := cfg.header(leftOut)
	// Resume compares it: a run continues only with the same cases.
	if header.Dataset.Fingerprint, err = experiment.Fingerprint(ctx, items); err != nil {
		return Report{}, err
	}
	result, ran := experiment.Run(ctx, experiment.Config{
		Header: header, Path: cfg.Out, Source: items, Task: task{cfg.Answerer}, Scorer: scorer{},
		Concurrency: cfg.Concurrency, Timeout: cfg.Timeout, Stop: cfg.Stop, Observer: cfg.Observer,
		Resume: cfg.Resume, Retry: cfg.RetryFailed, Keep: experiment.Keep{Environment: true}, // nothing is published
	})
	if ran != nil && !errors.Is(ran, experiment.ErrInterrupted) {
		return Report{}, ran
	}
	run, err := runstore.Load(result.Path)
	if ran != nil && errors.Is(err, fs.ErrNotExist) { // no case has an outcome
		return Report{}, ran
	}
	if err != nil {
		return Report{}, errors.Join(ran, err)
	}
	report, err = Measure(context.WithoutCancel(ctx), run)
	return report, errors.Join(ran, err, run.Close())
}

// complete reads the cases and sets defaults. For an Answerer, it leaves out the cases that
// expect their stored answer to fail, and returns their number.
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
	cfg.Trials = cmp.Or(cfg.Trials, map[Mode]int{DeterministicMode: 1, VarianceMode: 5}[cfg.Mode])
	if len(cfg.Datasets) > 0 || len(cfg.Cases) == 0 {
		read, err := Read(ctx, cfg.Strict, cfg.Datasets...)
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

// Keys of the metadata of a run.
const (
	keyMode    = "mode"
	keyLeftOut = "left_out"
	keySources = "cases" // number of cases by file
)

// header returns the header of the run.
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

// task answers a case with its stored answer, or by an Answerer.
type task struct{ answerer Answerer }

// Do returns an Answer. An answer that cannot be used is a Failure inside it; errors of the
// Answerer are returned unchanged.
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
		a = r.plain(text)
	}
	result.Output, err = json.Marshal(a)
	return result, err
}

// Question is what a system is asked about a case.
type Question struct {
	DocumentText string `json:"documentText"`
	Instructions string `json:"instructions"`
	// TargetSchema is the JSON Schema of a record.
	TargetSchema json.RawMessage `json:"targetSchema"`
	// OffsetMode is the mode in which to count offsets: the first that the schema names, else
	// ModeUTF16. An answer may state another.
	OffsetMode string `json:"-"`
}

// Answerer is the system under test. Answer returns the text of the system's answer,
// {"extractions": [...]}, unchanged: the bench judges it. An error means that there is no
// answer; an *outcome.Failure in its chain gives the class. Answer must be safe for concurrent
// use.
type Answerer interface {
	Answer(ctx context.Context, q Question) (text string, calls []outcome.Call, err error)
}

// texts returns the texts that the schema of a record allows for a property.
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

// offsetMode returns the first known mode that the schema of a record names, in span or at the
// top level.
func offsetMode(schema json.RawMessage) string {
	modes := texts(schema, "properties.span.properties.offsetMode")
	for _, mode := range append(modes, texts(schema, "properties.offsetMode")...) {
		if _, _, known := unitOf(mode); known {
			return mode
		}
	}
	return ModeUTF16
}

// document returns the question as a document with types to extract: the classes that the schema
// allows, each described by the instructions.
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

// Prompt returns the prompt for models: instructions, schema, and the form of a record with
// quote and offsets.
func Prompt() pipeline.Template {
	return pipeline.Template{Name: Name, Messages: []pipeline.TemplateMessage{
		{Role: pipeline.RoleSystem, Content: promptSystem}, {Role: pipeline.RoleUser, Content: promptUser},
	}}
}

// ModelAnswerer is an Answerer that asks a language model once for each case. The schema is part of the
// prompt; the provider does not enforce it, and answers are not repaired. It is safe for
// concurrent use if Model is.
type ModelAnswerer struct {
	Model pipeline.Model
	// Name and Provider identify the model in calls.
	Name, Provider string
}

// Answer returns the model's answer, including a refusal or one that was cut off. Errors are
// those of Model.
func (a ModelAnswerer) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	_, unit, _ := unitOf(q.OffsetMode)
	messages, err := pipeline.Compile(Prompt(), pipeline.Vars{Texts: map[string]string{
		"document_text": q.DocumentText, "instructions": q.Instructions, "target_schema": string(q.TargetSchema),
		"offset_mode": q.OffsetMode, "offset_unit": unit,
	}})
	if err != nil {
		return "", nil, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	call := outcome.Call{Name: "extract", Provider: a.Provider, Model: a.Name}
	res, err := pipeline.Record(ctx, a.Model, pipeline.Request{Messages: messages}, &call)
	if res.Finish == pipeline.FinishLength {
		call.Warnings = append(call.Warnings, "the answer was cut by the limit of tokens")
	}
	return res.Text, []outcome.Call{call}, err
}

// ExtractorAnswerer is an Answerer that uses an extractor of entities: each mention is a record with
// the type of its entity as the class.
type ExtractorAnswerer struct{ Extractor pipeline.Extractor }

// Answer calls the extractor and returns its errors unchanged.
func (e ExtractorAnswerer) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
	found, calls, err := e.Extractor.Extract(ctx, q.document())
	if err != nil {
		return "", calls, err
	}
	text, err := json.Marshal(recordsOf(found))
	return string(text), calls, err
}

// recordsOf returns entities as an answer, with one record for each mention. An entity without
// mentions is one record without offsets.
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

// PipelineAnswerer is an Answerer that asks a team's own pipeline, as docs/pipeline-protocol.md
// describes, with "instructions", "target_schema" and "offset_mode" in the request. The reply
// holds "extractions", records that match the schema, or "entities", whose mentions become
// records. It is safe for concurrent use.
type PipelineAnswerer struct{ Asker *provider.External }

// Answer asks once. A reply without a list is an answer that cannot be used. Errors are those of
// the pipeline.
func (e PipelineAnswerer) Answer(ctx context.Context, q Question) (string, []outcome.Call, error) {
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
