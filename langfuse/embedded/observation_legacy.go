package embedded

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// newestRow selects of each span the row that was written last: legacy reads
// show a span once, whatever was sent.
const newestRow = `o.rowid = (SELECT x.rowid FROM observations x WHERE x.trace_id = o.trace_id AND x.span_id = o.span_id
	ORDER BY x.updated DESC, x.rowid DESC LIMIT 1)`

// listLegacyObservations answers GET /observations, the latest start first.
func (s *Server) listLegacyObservations(c *call) (reply, error) {
	p, err := c.page(50)
	if err != nil {
		return reply{}, err
	}
	w, err := observationWhere(c)
	if err != nil {
		return reply{}, err
	}
	w.add(newestRow)
	total, err := count(s.store.r, "SELECT count(*) FROM observations o WHERE "+w.String(), w.args...)
	if err != nil {
		return reply{}, err
	}
	found, err := readWhole(s.store.r, "WHERE "+w.String()+" ORDER BY o.start_ms DESC, o.span_id LIMIT ? OFFSET ?",
		append(w.args, p.limit, p.offset())...)
	if err != nil {
		return reply{}, err
	}
	return ok(object{"data": s.legacyObservations(found), "meta": p.meta(total)})
}

// getLegacyObservation answers GET /observations/{id}.
func (s *Server) getLegacyObservation(c *call) (reply, error) {
	found, err := readWhole(s.store.r, "WHERE o.span_id = ? ORDER BY o.updated DESC, o.rowid DESC LIMIT 1", c.path["id"])
	if err != nil {
		return reply{}, err
	}
	if len(found) == 0 {
		return reply{}, notFound("Observation not found within authorized project")
	}
	return ok(s.legacyObservation(found[0]))
}

func (s *Server) legacyObservations(found []observation) []object {
	data := make([]object, len(found))
	for i, o := range found {
		data[i] = s.legacyObservation(o)
	}
	return data
}

// legacyObservation is an observation as Langfuse 3 shows it: contents parsed,
// usage and cost in the new and in the old fields. There are no prices.
func (s *Server) legacyObservation(o observation) object {
	usage, cost := detailsOf(o.usage), detailsOf(o.cost)
	input, output := usage.sum("input"), usage.sum("output")
	return object{
		"id": o.span, "traceId": nullable(o.trace), "projectId": s.cfg.ProjectID, "type": o.kind, "name": nullable(o.name),
		"parentObservationId": nullable(o.parent), "environment": o.environment, "version": nullable(o.version),
		"startTime": iso(o.start), "endTime": o.ended(), "completionStartTime": isoOrNull(o.completionStart),
		"createdAt": iso(o.created), "updatedAt": iso(o.updated), "level": o.level, "statusMessage": nullable(o.statusMessage),
		"input": parsedContent(o.input.String, o.input.Valid), "output": parsedContent(o.output.String, o.output.Valid),
		"metadata": o.nestedMetadata(), "model": nullable(o.model), "modelParameters": jsonText(o.parameters), "modelId": nil,
		"promptId": nullable(o.promptID), "promptName": nullable(o.promptName),
		"promptVersion": numberOrNull(o.promptVersion.Int64, o.promptVersion.Valid),
		"usageDetails":  usage, "costDetails": cost, "unit": "TOKENS",
		"usage":        object{"unit": "TOKENS", "input": input, "output": output, "total": usage["total"]},
		"promptTokens": input, "completionTokens": output, "totalTokens": usage["total"],
		"usagePricingTierName": nil, "usagePricingTierId": nil, "inputPrice": nil, "outputPrice": nil, "totalPrice": nil,
		"calculatedInputCost": cost.orNull("input"), "calculatedOutputCost": cost.orNull("output"),
		"calculatedTotalCost": cost.orNull("total"), "latency": o.latency(),
		"timeToFirstToken": numberOrNull(float64(o.completionStart.Int64-o.start)/1000, o.completionStart.Valid),
	}
}

// nestedMetadata is the metadata as it was sent. A row that was written while
// Langfuse 4 alone was played has only the flat form.
func (o observation) nestedMetadata() json.RawMessage {
	return jsonOr(orElse(o.legacyMetadata, o.metadata), "{}")
}

// parsedContent is an input or output as Langfuse 3 returns it: what is JSON as
// its value, any other text as it is.
func parsedContent(text string, valid bool) any {
	if !valid {
		return nil
	}
	return parsedValue(text)
}

// details are the numbers of a usage or cost object.
type details map[string]float64

func detailsOf(text string) details {
	d := details{}
	if json.Unmarshal([]byte(orElse(text, "{}")), &d) != nil || d == nil {
		return details{}
	}
	return d
}

// sum adds up the buckets of a kind: input and input_cached_tokens are input.
func (d details) sum(kind string) float64 {
	total := 0.0
	for _, key := range slices.Sorted(maps.Keys(d)) {
		if strings.HasPrefix(key, kind) {
			total += d[key]
		}
	}
	return total
}

func (d details) orNull(kind string) any {
	known := false
	for key := range d {
		known = known || strings.HasPrefix(key, kind)
	}
	return numberOrNull(d.sum(kind), known)
}
