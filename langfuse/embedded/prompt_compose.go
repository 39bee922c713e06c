package embedded

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The bounds of composition: how deep references nest, and how many are followed
// and how long the texts get, since references multiply.
const (
	maxPromptDepth      = 5
	maxPromptReferences = 10_000
	maxPromptLength     = 4 << 20
)

// composed is a prompt whose references are filled in. The graph is null where
// there are none.
type composed struct {
	content string
	graph   any
}

// composer resolves the references of one prompt.
type composer struct {
	q            querier
	tag          *regexp.Regexp
	dependencies map[string][]object
	found        map[string]prompt // by the inside of the tag
	references   int
	length       int
}

// compose replaces every tag @@@langfusePrompt:name=N|version=V@@@ and
// @@@langfusePrompt:name=N|label=L@@@ by the text of that prompt, and the tags
// in there likewise. A reference to nothing, to a chat prompt, in a circle, or
// too deep is the caller's fault.
func compose(q querier, p prompt) (composed, error) {
	c := composer{q: q, tag: regexp.MustCompile(`@@@langfusePrompt:(.*?)@@@`), dependencies: map[string][]object{},
		found: map[string]prompt{}}
	content, err := c.resolveContent(p)
	if err != nil {
		return composed{}, err
	}
	out := composed{content: content}
	if len(c.dependencies) > 0 {
		out.graph = object{"root": reference(p), "dependencies": c.dependencies}
	}
	return out, nil
}

func reference(p prompt) object {
	return object{"id": p.id, "name": p.name, "version": p.version}
}

func (c *composer) resolveContent(p prompt) (string, error) {
	var content any
	if err := json.Unmarshal([]byte(p.content), &content); err != nil {
		return "", err
	}
	switch node := content.(type) {
	case string:
		text, err := c.resolve(p, node, nil)
		if err != nil {
			return "", err
		}
		return encodeJSON(text)
	case []any:
		for _, element := range node {
			message, _ := element.(map[string]any)
			text, isText := message["content"].(string)
			if !isText {
				continue
			}
			resolved, err := c.resolve(p, text, nil)
			if err != nil {
				return "", err
			}
			message["content"] = resolved
		}
	}
	return encodeJSON(content)
}

// resolve fills in the references of one text of p; above are the prompts that
// lead here.
func (c *composer) resolve(p prompt, text string, above []string) (string, error) {
	above = append(slices.Clone(above), p.id)
	if len(above) > maxPromptDepth {
		return "", invalid("Maximum nesting depth exceeded (%d)", maxPromptDepth)
	}
	var out strings.Builder
	rest := 0
	for _, at := range c.tag.FindAllStringSubmatchIndex(text, -1) {
		child, err := c.find(text[at[2]:at[3]])
		if err != nil {
			return "", err
		}
		if slices.Contains(above, child.id) {
			return "", invalid("Circular dependency detected involving prompt '%s' version %d", child.name, child.version)
		}
		var inner string
		if err := json.Unmarshal([]byte(child.content), &inner); err != nil {
			return "", err
		}
		c.note(p, child)
		resolved, err := c.resolve(child, inner, above)
		if err != nil {
			return "", err
		}
		c.references, c.length = c.references+1, c.length+len(resolved)
		if c.references > maxPromptReferences || c.length > maxPromptLength {
			return "", invalid("Resolved prompt is too long: at most %d references and %d bytes", maxPromptReferences, maxPromptLength)
		}
		out.WriteString(text[rest:at[0]])
		out.WriteString(resolved)
		rest = at[1]
	}
	out.WriteString(text[rest:])
	return out.String(), nil
}

func (c *composer) note(parent, child prompt) {
	for _, known := range c.dependencies[parent.id] {
		if known["id"] == child.id {
			return
		}
	}
	c.dependencies[parent.id] = append(c.dependencies[parent.id], reference(child))
}

// find reads the inside of a tag: the name, then a version or a label.
func (c *composer) find(tag string) (prompt, error) {
	if p, known := c.found[tag]; known {
		return p, nil
	}
	parts := strings.Split(tag, "|")
	if len(parts) != 2 || !strings.HasPrefix(parts[0], "name=") {
		return prompt{}, invalid("Invalid prompt dependency tag: %s", clip(tag, 200))
	}
	name := strings.TrimPrefix(parts[0], "name=")
	var label string
	var version int64
	if rest, byLabel := strings.CutPrefix(parts[1], "label="); byLabel {
		label = rest
	} else if rest, byVersion := strings.CutPrefix(parts[1], "version="); byVersion {
		version, _ = strconv.ParseInt(rest, 10, 64) // 0, which no version has, where it is no number
	}
	if label == "" && version == 0 {
		return prompt{}, invalid("Invalid prompt dependency tag: %s", clip(tag, 200))
	}
	p, exists, err := findPrompt(c.q, name, label, version)
	if err != nil {
		return prompt{}, err
	}
	if !exists {
		return prompt{}, invalid("Prompt dependency not found: %s", fmt.Sprintf("%s - %s", clip(name, 200), clip(parts[1], 100)))
	}
	if p.kind != "text" {
		return prompt{}, invalid("Prompt dependency is not a text prompt: %s", clip(name, 200))
	}
	c.found[tag] = p
	return p, nil
}
