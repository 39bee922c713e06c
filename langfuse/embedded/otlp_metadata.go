package embedded

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// asText writes an attribute as text: a text as it is, anything else as JSON.
func asText(v any) string {
	if s, isText := v.(string); isText {
		return s
	}
	text, err := encodeJSON(v)
	if err != nil { // a number that JSON cannot write
		return ""
	}
	return text
}

// objectText returns an attribute that is the text of a JSON object, or nothing.
func objectText(v any) string {
	s, isText := v.(string)
	if !isText {
		return ""
	}
	var fields map[string]json.RawMessage
	if depth([]byte(s)) > maxDepth || json.Unmarshal([]byte(s), &fields) != nil || fields == nil {
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
	if s, isText := a[key].(string); isText && s != "" {
		if fields, fits := flatFields(s); fits {
			maps.Copy(flat, fields)
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

// flatFields flattens the text of a JSON object. It refuses a text that nests so
// that the joined keys would be many times as long as the text itself.
func flatFields(s string) (map[string]string, bool) {
	if depth([]byte(s)) > maxDepth {
		return nil, false
	}
	decoded, err := decodeJSON([]byte(s))
	if _, isObject := decoded.(map[string]any); err != nil || !isObject {
		return nil, false
	}
	flat, budget := map[string]string{}, 4*len(s)+64<<10
	return flat, flatten(flat, "", decoded, &budget)
}

func flatten(flat map[string]string, prefix string, v any, budget *int) bool {
	if *budget -= len(prefix); *budget < 0 {
		return false
	}
	fields, isObject := v.(map[string]any)
	if !isObject {
		flat[prefix] = asText(v)
		return true
	}
	for key, child := range fields {
		if prefix != "" {
			key = prefix + "." + key
		}
		if !flatten(flat, key, child, budget) {
			return false
		}
	}
	return true
}

// observationMetadata is what was said as metadata, and besides, unless a
// Langfuse SDK sent the span, every attribute that has no field of its own.
func observationMetadata(b batch, a attributes) string {
	flat := map[string]string{}
	flattenAttribute(flat, a, "langfuse.trace.metadata")
	flattenAttribute(flat, a, "langfuse.observation.metadata")
	if !strings.HasPrefix(b.scopeName, "langfuse-sdk") {
		for key, v := range a {
			if !mapped(key) {
				flat["attributes."+key] = asText(v)
			}
		}
	}
	for key, v := range b.resource {
		flat["resourceAttributes."+key] = asText(v)
	}
	if b.scopeName != "" {
		flat["scope.name"] = b.scopeName
	}
	if b.scopeVersion != "" {
		flat["scope.version"] = b.scopeVersion
	}
	return asText(flat)
}

// legacyMetadata is the nested form in which Langfuse 3 keeps the metadata of a
// span or of its trace, which are found under key.
func legacyMetadata(b batch, a attributes, key string) string {
	out := map[string]any{}
	if s, isText := a[key].(string); isText && s != "" {
		out = metadataFields(s)
	}
	for name, v := range a {
		if rest, below := strings.CutPrefix(name, key+"."); below && rest != "" {
			out[rest] = parsedValue(v)
		}
	}
	if !strings.HasPrefix(b.scopeName, "langfuse-sdk") {
		others := map[string]any{}
		for name, v := range a {
			if !mapped(name) {
				others[name] = v
			}
		}
		out["attributes"] = others
	}
	out["resourceAttributes"] = map[string]any(b.resource)
	out["scope"] = map[string]any{"name": b.scopeName, "version": b.scopeVersion}
	return asText(out)
}

// metadataFields reads metadata that is the text of a JSON value: the fields of
// an object, anything else as the field metadata.
func metadataFields(s string) map[string]any {
	v := parsedValue(s)
	fields, isObject := v.(map[string]any)
	if !isObject {
		return map[string]any{"metadata": v}
	}
	for key, field := range fields {
		fields[key] = parsedValue(field)
	}
	return fields
}

// parsedValue reads a text that is JSON as what it says, as Langfuse 3 does with
// inputs, outputs and the values of metadata.
func parsedValue(v any) any {
	s, isText := v.(string)
	if !isText || s == "" {
		return v
	}
	return parsedText(s)
}

func mapped(key string) bool {
	if strings.HasPrefix(key, "langfuse.observation.") || strings.HasPrefix(key, "langfuse.trace.") {
		return true
	}
	return slices.Contains([]string{"langfuse.environment", "langfuse.release", "langfuse.version", "langfuse.user.id",
		"user.id", "langfuse.session.id", "session.id"}, key)
}

// tagsOf reads tags from a list or from the text of a JSON list.
func tagsOf(v any) string {
	if s, isText := v.(string); isText && s != "" {
		decoded, err := decodeJSON([]byte(s))
		if _, isList := decoded.([]any); err != nil || !isList {
			decoded = []any{s}
		}
		v = decoded
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
