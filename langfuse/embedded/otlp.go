package embedded

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"extraction-experiment/internal/textutil"
)

// maxSpansBody bounds an OTLP request after decompression.
const maxSpansBody = 64 << 20

// exportSpans answers POST /otel/v1/traces: protobuf or JSON, gzipped or not. One bad
// span rejects the whole request. The answer is a queue job, as Langfuse answers, not an
// OTLP response. Langfuse 3 answers so even where it then drops the request because of a
// bad span.
func (s *Server) exportSpans(c *call) (any, error) {
	buffer, release := s.buffer(c.r.ContentLength)
	defer release()
	body, err := readSpans(c, buffer, s.maxSpans)
	if err != nil {
		return nil, err
	}
	kind, body, err := s.spansIn(c.r.Header.Get("Content-Type"), body)
	var check spanCheck
	if err == nil {
		err = check.read(body)
	}
	queued := object{"id": uuid.NewString(), "name": "otel-ingestion-job", "timestamp": iso(s.now()),
		"data": object{"authCheck": object{"projectId": DefaultProjectID}}}
	switch {
	case err != nil:
		return nil, spanFault(err.Error())
	case check.bad > 0 && s.cfg.Mode == ModeV3:
		return queued, nil // and all of it is lost
	case check.bad > 0:
		return nil, spanFault(fmt.Sprintf("Rejected the export: %d of %d spans are invalid: missing or non-string ids",
			check.bad, check.spans))
	case check.spans == 0:
		return object{}, nil
	}
	return queued, s.take(s.cfg.IngestionDelay, kind, body, check.reach)
}

// spanCheck checks the spans of a request before they are stored, and looks up what of the lists
// of experiments they may change.
type spanCheck struct {
	spans, bad int // bad ones lack an id
	reach      reach

	hasTrace, hasID bool   // of the span that is looked at
	latest          uint64 // its start or end
	key, text       []byte // of the newest attribute
}

// read finds what proto.Unmarshal would find wrong with the spans of a request, without
// making messages of them, and their reach. Where a span is sent again for another
// experiment, only that one is named: the former loses it with whatever is stored next.
func (check *spanCheck) read(body []byte) error {
	kind := (*tracev1.TracesData)(nil).ProtoReflect().Descriptor()
	if err := check.message(kind, body, protowire.DefaultRecursionLimit); err != nil {
		return fmt.Errorf("Failed to parse OTel Protobuf Trace: %w", err)
	}
	return nil
}

// message checks a message of a kind, in which others may stand so many levels deep.
func (check *spanCheck) message(kind protoreflect.MessageDescriptor, raw []byte, levels int) error {
	if levels == 0 {
		return errors.New("nested too deep")
	}
	isSpan := kind.Name() == "Span"
	for len(raw) > 0 {
		number, wire, n := protowire.ConsumeField(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		_, _, tag := protowire.ConsumeTag(raw)
		field, value := kind.Fields().ByNumber(number), raw[tag:n]
		raw = raw[n:]
		if isSpan && wire == protowire.Fixed64Type {
			instant, _ := protowire.ConsumeFixed64(value)
			check.latest = max(check.latest, instant)
		}
		if field == nil || wire != protowire.BytesType {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		switch name := field.Name(); {
		case field.Kind() == protoreflect.MessageKind:
			if err := check.message(field.Message(), value, levels-1); err != nil {
				return err
			}
		case field.Kind() == protoreflect.StringKind && !utf8.Valid(value):
			return fmt.Errorf("%s is not UTF-8", field.FullName())
		case name == "key":
			check.key = value
		case name == "string_value":
			check.text = value
		case isSpan && name == "trace_id":
			check.hasTrace = len(value) > 0
		case isSpan && name == "span_id":
			check.hasID = len(value) > 0
		}
	}
	switch {
	case kind.Name() == "KeyValue":
		if string(check.key) == experimentKey+"id" {
			check.reach.add(string(check.text))
		}
		check.key, check.text = nil, nil
	case isSpan:
		if check.spans++; !check.hasTrace || !check.hasID {
			check.bad++
		}
		check.reach.latest = max(check.reach.latest, cmp.Or(millis(check.latest), math.MaxInt64)) // without one it is what the receipt will be
		check.hasTrace, check.hasID, check.latest = false, false, 0
	}
	return nil
}

// storeSpans puts the spans of a request into the tables.
func storeSpans(tx *transaction, m message) error {
	data := new(tracev1.TracesData)
	if err := proto.Unmarshal(m.body, data); err != nil {
		return err
	}
	described := map[string]bool{}
	for b, sp := range spansOf(data, m.kind) {
		o := observe(b, sp, m.received)
		if m.mode.legacy() {
			if err := traceOf(sp, o).store(tx); err != nil {
				return err
			}
		}
		if err := o.write(tx, m.mode, described); err != nil {
			return err
		}
	}
	return nil
}

// readSpans reads and unpacks a body. Neither form may exceed the limit, so a
// small archive cannot unfold into more.
func readSpans(c *call, into *bytes.Buffer, limit int64) ([]byte, error) {
	body, err := readBody(into, c.r.Body, limit, c.r.ContentLength)
	if err != nil || !strings.EqualFold(c.r.Header.Get("Content-Encoding"), "gzip") {
		return body, err
	}
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, spanFault("Failed to decompress the request body: " + err.Error())
	}
	return readBody(new(bytes.Buffer), zr, limit, 0)
}

// spanFault is an error of this route: JSON without the usual message.
func spanFault(text string) *fault {
	return &fault{http.StatusBadRequest, object{"error": text}}
}

// origin is what the spans of one resource and scope have in common.
type origin struct {
	resource                attributes
	scopeName, scopeVersion string
}

// span is one span as it was sent, in whichever encoding. Instants are
// milliseconds; zero is an absent one.
type span struct {
	trace, id, parent, name string
	start, end              int64
	failed                  bool
	message                 string
	attributes              attributes
}

// The encodings of spans.
const (
	protobufSpans = "application/x-protobuf"
	jsonSpans     = "application/json"
)

// spansIn returns the encoding that a content type names, and what was sent as an export
// request in protobuf, without the spans that are to be lost.
func (s *Server) spansIn(contentType string, body []byte) (kind string, _ []byte, err error) {
	data, form := new(tracev1.TracesData), "Protobuf" // has the bytes of an export request
	switch {
	case strings.Contains(contentType, protobufSpans) && s.cfg.Drop == nil:
		return protobufSpans, body, nil
	case strings.Contains(contentType, protobufSpans):
		kind, err = protobufSpans, proto.Unmarshal(body, data)
	case strings.Contains(contentType, jsonSpans):
		kind, form, err = jsonSpans, "JSON", decodeJSONSpans(body, data)
	default:
		return "", nil, errors.New("Invalid content type: use application/x-protobuf or application/json")
	}
	for _, rs := range data.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			ss.Spans = slices.DeleteFunc(ss.Spans, func(sp *tracev1.Span) bool {
				return s.cfg.drops(DropSpan, idText(kind, sp.GetSpanId()))
			})
		}
	}
	if err == nil {
		body, err = proto.Marshal(data)
	}
	if err != nil {
		err = fmt.Errorf("Failed to parse OTel %s Trace: %w", form, err)
	}
	return kind, body, err
}

// idText is how an id is written: in protobuf it is bytes, which are written as
// hexadecimal digits; in JSON it is a text.
func idText(kind string, id []byte) string {
	if kind == jsonSpans {
		return string(id)
	}
	return hex.EncodeToString(id)
}

// spansOf yields the spans of a request.
func spansOf(data *tracev1.TracesData, kind string) iter.Seq2[origin, span] {
	return func(yield func(origin, span) bool) {
		for _, rs := range data.GetResourceSpans() {
			from := origin{resource: attributesOf(rs.GetResource().GetAttributes())}
			for _, ss := range rs.GetScopeSpans() {
				from.scopeName, from.scopeVersion = ss.GetScope().GetName(), ss.GetScope().GetVersion()
				for _, sp := range ss.GetSpans() {
					if !yield(from, span{
						trace: idText(kind, sp.GetTraceId()), id: idText(kind, sp.GetSpanId()), parent: idText(kind, sp.GetParentSpanId()),
						name: sp.GetName(), start: millis(sp.GetStartTimeUnixNano()), end: millis(sp.GetEndTimeUnixNano()),
						failed:  sp.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
						message: sp.GetStatus().GetMessage(), attributes: attributesOf(sp.GetAttributes()),
					}) {
						return
					}
				}
			}
		}
	}
}

// decodeJSONSpans reads the JSON form. Its ids are hexadecimal digits, where the
// JSON of protobuf has base64: the digits become the bytes of the ids. An id that
// is no text is none.
func decodeJSONSpans(body []byte, data *tracev1.TracesData) error {
	decoded, err := decodeJSON(body)
	if err != nil {
		return err
	}
	text, err := json.Marshal(eachLeaf("", decoded, func(key string, leaf any) any {
		if key != "traceId" && key != "spanId" && key != "parentSpanId" {
			return leaf
		}
		digits, _ := leaf.(string)
		return base64.StdEncoding.EncodeToString([]byte(digits))
	}))
	if err != nil {
		return err
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, data)
}

func millis(nanos uint64) int64 {
	return int64(min(nanos, math.MaxInt64)) / int64(time.Millisecond)
}

// attributes holds string, bool, int64, float64, []any and map[string]any.
type attributes map[string]any

func attributesOf(list []*commonv1.KeyValue) attributes {
	attrs := make(attributes, len(list))
	for _, kv := range list {
		attrs[kv.GetKey()] = valueOf(kv.GetValue())
	}
	return attrs
}

func valueOf(v *commonv1.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		return v.StringValue
	case *commonv1.AnyValue_BoolValue:
		return v.BoolValue
	case *commonv1.AnyValue_IntValue:
		return v.IntValue
	case *commonv1.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonv1.AnyValue_BytesValue:
		return base64.StdEncoding.EncodeToString(v.BytesValue)
	case *commonv1.AnyValue_ArrayValue:
		list := []any{}
		for _, element := range v.ArrayValue.GetValues() {
			list = append(list, valueOf(element))
		}
		return list
	case *commonv1.AnyValue_KvlistValue:
		return map[string]any(attributesOf(v.KvlistValue.GetValues()))
	}
	return nil
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
		if v, given := a[key]; given && v != nil {
			return sql.NullString{String: asText(v), Valid: true}
		}
	}
	return sql.NullString{}
}

// first looks for each key in the span, then in the resource.
func first(a, resource attributes, keys ...string) string {
	for _, key := range keys {
		if s := cmp.Or(a.text(key), resource.text(key)); s != "" {
			return s
		}
	}
	return ""
}

// observe maps a span to an observation by the attribute names of Langfuse.
// Instants that are missing are replaced by the other one or by the receipt.
func observe(b origin, sp span, now int64) observation {
	a := sp.attributes
	o := observation{
		trace: sp.trace, span: sp.id, parent: sp.parent, created: now, updated: now, start: sp.start, end: sp.end,
		name: cmp.Or(a.text("gen_ai.tool.name", "logfire.msg"), sp.name),
		kind: kindOf(a), level: levelOf(a, sp.failed),
		statusMessage: cmp.Or(a.text("langfuse.observation.status_message"), sp.message),
		environment:   environment(first(a, b.resource, "langfuse.environment", "deployment.environment.name", "deployment.environment")),
		release:       first(a, b.resource, "langfuse.release"),
		version:       cmp.Or(first(a, b.resource, "langfuse.version"), b.resource.text("service.version")),
		user:          a.text("langfuse.user.id", "user.id"),
		session:       a.text("langfuse.session.id", "session.id", "gen_ai.conversation.id"),
		traceName:     a.text("langfuse.trace.name"),
		model:         a.text("langfuse.observation.model.name", "gen_ai.response.model", "gen_ai.request.model"),
		parameters:    objectText(a.text("langfuse.observation.model.parameters")),
		tags:          tagsOf(a["langfuse.trace.tags"]),
		input:         a.content("langfuse.observation.input", "gen_ai.prompt", "input.value"),
		output:        a.content("langfuse.observation.output", "gen_ai.completion", "output.value"),
	}
	o.root = sp.parent == "" || a["langfuse.internal.as_root"] == true || a["langfuse.internal.is_app_root"] == true
	o.public, _ = a["langfuse.trace.public"].(bool)
	o.start = cmp.Or(o.start, o.end, now)
	o.end = cmp.Or(o.end, o.start)
	first := strings.Trim(a.text("langfuse.observation.completion_start_time"), `"`)
	o.completionStart.Int64, o.completionStart.Valid = parseInstant(first)
	o.usage, o.cost, o.totalCost = accounts(a)
	// A link to a prompt: generations only, both parts or none.
	version, err := strconv.ParseInt(a.content("langfuse.observation.prompt.version").String, 10, 64)
	if name := a.text("langfuse.observation.prompt.name"); o.kind == "GENERATION" && name != "" && err == nil {
		o.promptName, o.promptVersion = name, sql.NullInt64{Int64: version, Valid: true}
	}
	if o.experiment = a.text("langfuse.experiment.id"); o.experiment != "" {
		o.readExperiment(a)
	}
	o.readMetadata(b, a)
	return o
}

// experimentKey begins the attributes of an experiment.
const experimentKey = "langfuse.experiment."

func (o *observation) readExperiment(a attributes) {
	o.experimentName = a.text("langfuse.experiment.name")
	o.experimentDescription = a.text("langfuse.experiment.description")
	o.experimentDataset = a.text("langfuse.experiment.dataset.id")
	o.experimentItem = a.text("langfuse.experiment.item.id")
	o.experimentMetadata = objectOrFlat(a, "langfuse.experiment.metadata")
	o.experimentItemValues = objectOrFlat(a, "langfuse.experiment.item.metadata")
	o.expected = a.content("langfuse.experiment.item.expected_output")
	o.itemRoot = a.text("langfuse.experiment.item.root_observation_id") == o.span
	version := &o.experimentItemVersion
	version.Int64, version.Valid = parseInstant(a.text("langfuse.experiment.item.version"))
}

// kindOf tells the type of an observation: by Langfuse's own attribute, else by
// a model.
func kindOf(a attributes) string {
	given := strings.ToUpper(a.text("langfuse.observation.type"))
	switch {
	case slices.Contains([]string{"SPAN", "GENERATION", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING",
		"GUARDRAIL"}, given):
		return given
	case a.text("langfuse.observation.model.name", "gen_ai.request.model", "gen_ai.response.model") != "":
		return "GENERATION"
	}
	return "SPAN"
}

func levelOf(a attributes, failed bool) string {
	level := strings.ToUpper(a.text("langfuse.observation.level"))
	switch {
	case slices.Contains([]string{"DEBUG", "DEFAULT", "WARNING", "ERROR"}, level):
		return level
	case failed:
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
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return "default"
	}
	return name
}

// objectText returns a text that is a JSON object, or nothing.
func objectText(s string) string {
	raw := []byte(s)
	if !strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") || !storable(raw) {
		return ""
	}
	return s
}

// flatText gathers an attribute that is a JSON object and the attributes below
// it into one flat JSON object of texts; nested keys are joined by dots.
func flatText(a attributes, key string) string {
	flat := map[string]string{}
	flattenAttribute(flat, a, key)
	if len(flat) == 0 {
		return ""
	}
	return asText(flat)
}

func flattenAttribute(flat map[string]string, a attributes, key string) {
	if s := a.text(key); s != "" {
		if objectText(s) != "" {
			budget := 4*len(s) + 64<<10
			flatten(flat, "", json.RawMessage(strings.TrimSpace(s)), &budget)
		} else {
			flat["metadata"] = s
		}
	}
	for name, v := range a {
		if rest, below := strings.CutPrefix(name, key+"."); below && rest != "" {
			flat[rest] = asText(v)
		}
	}
}

// flatten puts the fields of objects under joined keys. An object whose joined
// keys would be many times as long as the whole text stays JSON.
func flatten(flat map[string]string, prefix string, raw json.RawMessage, budget *int) {
	fields := maps.Collect(textutil.JSONMembers(raw))
	cost := len(fields) * len(prefix)
	switch {
	case raw[0] == '{' && cost <= *budget:
		*budget -= cost
		for key, child := range fields {
			if prefix != "" {
				key = prefix + "." + key
			}
			flatten(flat, key, child, budget)
		}
	case raw[0] == '{' || raw[0] == '[':
		flat[prefix] = asText(parsedText(string(raw)))
	case raw[0] == '"':
		flat[prefix] = textutil.JSONText(raw)
	default:
		flat[prefix] = string(raw)
	}
}

// objectOrFlat returns what flatText makes flat, as it came where it is all in one
// attribute: it is made flat when it is read.
func objectOrFlat(a attributes, key string) string {
	for name := range a {
		if strings.HasPrefix(name, key+".") {
			return flatText(a, key)
		}
	}
	if s := a.text(key); strings.Trim(s, "{} \t\r\n") != "" {
		return s
	}
	return ""
}

// readMetadata reads what was said as metadata, and besides, unless a Langfuse SDK sent
// the span, every attribute that has no column of its own; said has those that have one.
func (o *observation) readMetadata(b origin, a attributes) {
	flat, said := map[string]string{}, map[string]bool{}
	others := !strings.HasPrefix(b.scopeName, "langfuse-sdk")
	for i, saying := range o.sayings() {
		if key := experimentKey + saying[0]; others && saying[1] != "" && a[key] == saying[1] {
			o.said |= 1 << i
			said[key] = true
		}
	}
	flattenAttribute(flat, a, "langfuse.trace.metadata")
	flattenAttribute(flat, a, "langfuse.observation.metadata")
	for key, v := range a {
		if others && !mapped(key) && !said[key] {
			flat["attributes."+key] = asText(v)
		}
	}
	for key, v := range b.resource {
		flat["resourceAttributes."+key] = asText(v)
	}
	for key, text := range map[string]string{"scope.name": b.scopeName, "scope.version": b.scopeVersion} {
		if text != "" {
			flat[key] = text
		}
	}
	o.metadata = asText(flat)
}

// mapped says whether an attribute has a field of its own.
func mapped(key string) bool {
	return strings.HasPrefix(key, "langfuse.observation.") || strings.HasPrefix(key, "langfuse.trace.") ||
		slices.Contains([]string{"langfuse.environment", "langfuse.release", "langfuse.version", "langfuse.user.id",
			"user.id", "langfuse.session.id", "session.id"}, key)
}

// tagsOf reads tags from a list or from the text of a JSON list.
func tagsOf(v any) string {
	if s, isText := v.(string); isText && s != "" {
		if v, isText = parsedText(s).([]any); !isText {
			v = []any{s}
		}
	}
	list, _ := v.([]any)
	tags := []string{}
	for _, tag := range list {
		if s, isText := tag.(string); isText && s != "" && !slices.Contains(tags, s) {
			tags = append(tags, s)
		}
	}
	return joined(tags)
}

// numbers are those of a usage or cost object, by kind.
type numbers map[string]float64

// accounts reads tokens and money. Both attributes are texts of JSON objects. A
// total that is not given is the sum of the rest.
func accounts(a attributes) (usage, cost string, total sql.NullFloat64) {
	tokens := numbersOf(a.text("langfuse.observation.usage_details"))
	maps.DeleteFunc(tokens, func(_ string, n float64) bool { return n != math.Trunc(n) })
	if len(tokens) > 0 {
		usage = asText(tokens.withTotal())
	}
	if money := numbersOf(a.text("langfuse.observation.cost_details")); len(money) > 0 {
		money = money.withTotal()
		cost, total = asText(money), sql.NullFloat64{Float64: money["total"], Valid: true}
	}
	return usage, cost, total
}

func (n numbers) withTotal() numbers {
	if _, given := n["total"]; given {
		return n
	}
	sum := 0.0
	for _, kind := range slices.Sorted(maps.Keys(n)) { // in one order: sums of floats depend on it
		sum += n[kind]
	}
	n["total"] = sum
	return n
}

// numbersOf reads a JSON object of numbers that are not negative; other values
// are left out.
func numbersOf(text string) numbers {
	var fields map[string]any
	if json.Unmarshal([]byte(text), &fields) != nil {
		return nil
	}
	n := numbers{}
	for key, field := range fields {
		if value, isNumber := field.(float64); isNumber && value >= 0 {
			n[key] = value
		}
	}
	return n
}
