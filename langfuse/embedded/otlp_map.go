package embedded

import (
	"database/sql"
	"strings"
	"time"
)

// observe maps a span to an observation by the attribute names of Langfuse.
// Instants that are missing are replaced by the other one or by the receipt.
func observe(b batch, sp span, now int64) observation {
	a := sp.attributes
	o := observation{
		trace: sp.trace, span: sp.id, parent: sp.parent, created: now, updated: now,
		name: orElse(a.text("gen_ai.tool.name", "logfire.msg"), sp.name),
		kind: kindOf(a), level: levelOf(a, sp.failed),
		statusMessage: orElse(a.text("langfuse.observation.status_message"), sp.message),
		environment:   environment(first(a, b.resource, "langfuse.environment", "deployment.environment.name", "deployment.environment")),
		release:       first(a, b.resource, "langfuse.release"),
		version:       orElse(first(a, b.resource, "langfuse.version"), b.resource.text("service.version")),
		user:          a.text("langfuse.user.id", "user.id"),
		session:       a.text("langfuse.session.id", "session.id", "gen_ai.conversation.id"),
		traceName:     a.text("langfuse.trace.name"),
		model:         a.text("langfuse.observation.model.name", "gen_ai.response.model", "gen_ai.request.model"),
		parameters:    objectText(a["langfuse.observation.model.parameters"]),
		tags:          tagsOf(a["langfuse.trace.tags"]),
		input:         a.content("langfuse.observation.input", "gen_ai.prompt", "input.value"),
		output:        a.content("langfuse.observation.output", "gen_ai.completion", "output.value"),
		metadata:      observationMetadata(b, a),
	}
	o.root = sp.parent == "" || a["langfuse.internal.as_root"] == true || a["langfuse.internal.is_app_root"] == true
	o.public, _ = a["langfuse.trace.public"].(bool)
	o.start, o.end = sp.start/int64(time.Millisecond), sp.end/int64(time.Millisecond)
	if o.start == 0 {
		o.start = o.end
	}
	if o.start == 0 {
		o.start = now
	}
	if o.end == 0 {
		o.end = o.start
	}
	if at, valid := parseInstant(strings.Trim(a.text("langfuse.observation.completion_start_time"), `"`)); valid {
		o.completionStart = sql.NullInt64{Int64: at, Valid: true}
	}
	o.usage, o.cost, o.totalCost = accounts(a)
	o.readPrompt(a)
	o.readExperiment(a)
	return o
}

// readPrompt takes the link to a prompt: generations only, both parts or none.
func (o *observation) readPrompt(a attributes) {
	name := a.text("langfuse.observation.prompt.name")
	version, whole := wholeNumber(a["langfuse.observation.prompt.version"])
	if o.kind != "GENERATION" || name == "" || !whole {
		return
	}
	o.promptName, o.promptVersion = name, sql.NullInt64{Int64: version, Valid: true}
}

func (o *observation) readExperiment(a attributes) {
	o.experiment = a.text("langfuse.experiment.id")
	if o.experiment == "" {
		return
	}
	o.experimentName = a.text("langfuse.experiment.name")
	o.experimentDescription = a.text("langfuse.experiment.description")
	o.experimentDataset = a.text("langfuse.experiment.dataset.id")
	o.experimentItem = a.text("langfuse.experiment.item.id")
	o.experimentMetadata = flatText(a, "langfuse.experiment.metadata")
	o.experimentItemValues = flatText(a, "langfuse.experiment.item.metadata")
	o.expected = a.content("langfuse.experiment.item.expected_output")
	o.itemRoot = a.text("langfuse.experiment.item.root_observation_id") == o.span
	if at, valid := parseInstant(a.text("langfuse.experiment.item.version")); valid {
		o.experimentItemVersion = sql.NullInt64{Int64: at, Valid: true}
	}
}

// kindOf tells the type of an observation: by Langfuse's own attribute, else by
// the conventions of OpenInference and of generative AI, else by a model.
func kindOf(a attributes) string {
	given := strings.ToLower(a.text("langfuse.observation.type"))
	switch given {
	case "span", "generation", "event", "agent", "tool", "chain", "retriever", "evaluator", "embedding", "guardrail":
		return strings.ToUpper(given)
	}
	switch strings.ToUpper(a.text("openinference.span.kind")) {
	case "LLM":
		return "GENERATION"
	case "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL":
		return strings.ToUpper(a.text("openinference.span.kind"))
	}
	switch a.text("gen_ai.operation.name") {
	case "chat", "completion", "text_completion", "generate_content":
		return "GENERATION"
	case "embeddings":
		return "EMBEDDING"
	case "execute_tool":
		return "TOOL"
	case "invoke_agent", "create_agent":
		return "AGENT"
	}
	if a.text("langfuse.observation.model.name", "gen_ai.request.model", "gen_ai.response.model") != "" {
		return "GENERATION"
	}
	return "SPAN"
}

func levelOf(a attributes, failed bool) string {
	switch strings.ToUpper(a.text("langfuse.observation.level")) {
	case "DEBUG", "TRACE":
		return "DEBUG"
	case "DEFAULT", "INFO":
		return "DEFAULT"
	case "WARNING", "WARN":
		return "WARNING"
	case "ERROR", "FATAL", "CRITICAL":
		return "ERROR"
	}
	if failed {
		return "ERROR"
	}
	return "DEFAULT"
}

// environment brings a name into the form that Langfuse accepts: lower case,
// without "langfuse" in front, at most 40 of letters, digits, - and _; any other
// name is "default".
func environment(name string) string {
	name = strings.ToLower(name)
	for strings.HasPrefix(name, "langfuse") {
		name = strings.TrimPrefix(name, "langfuse")
		if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "_") {
			name = name[1:]
		}
	}
	name = name[:min(len(name), 40)]
	fits := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) < 0
	if name == "" || !fits {
		return "default"
	}
	return name
}

// text returns the first of the keys whose value is a text that is not empty.
func (a attributes) text(keys ...string) string {
	for _, key := range keys {
		if s, isText := a[key].(string); isText && s != "" {
			return s
		}
	}
	return ""
}

// content returns the first of the keys that is there, as text; the empty text
// is a content too.
func (a attributes) content(keys ...string) sql.NullString {
	for _, key := range keys {
		v, given := a[key]
		if !given || v == nil {
			continue
		}
		return sql.NullString{String: asText(v), Valid: true}
	}
	return sql.NullString{}
}

// first looks for each key in the span, then in the resource.
func first(a, resource attributes, keys ...string) string {
	for _, key := range keys {
		if s := orElse(a.text(key), resource.text(key)); s != "" {
			return s
		}
	}
	return ""
}
