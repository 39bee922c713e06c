package embedded

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestPrompts_versionsAndLabels(t *testing.T) {
	r := newTestServer(t, Config{})
	first := r.must(201, r.post(api+"/v2/prompts", object{"name": "p", "prompt": "one {{x}}", "labels": []string{"production", "a"},
		"config": object{"model": "m"}, "tags": []string{"t"}, "commitMessage": "why"}))
	equalFields(t, first, object{"version": 1, "type": "text", "prompt": "one {{x}}", "labels": []string{"a", "latest", "production"},
		"config": object{"model": "m"}, "tags": []string{"t"}, "commitMessage": "why", "resolutionGraph": nil, "projectId": DefaultProjectID})
	r.clock.advance(time.Second)
	second := r.must(201, r.post(api+"/v2/prompts", object{"name": "p", "prompt": "two", "labels": []string{"a"}}))
	equal(t, "labels of the second", second.at("labels"), []string{"a", "latest"})
	equal(t, "tags are those of the name", second.at("tags"), []string{"t"})
	for query, version := range map[string]int{"": 1, "?label=production": 1, "?label=a": 2, "?label=latest": 2, "?version=1": 1, "?version=2": 2} {
		equal(t, "read "+query, r.must(200, r.get(api+"/v2/prompts/p"+query)).at("version"), version)
	}
	patched := r.must(200, r.do("PATCH", api+"/v2/prompts/p/versions/1", object{"newLabels": []string{"a", "b"}}))
	equal(t, "labels are added and moved", patched.at("labels"), []string{"a", "b", "production"})
	equal(t, "and gone elsewhere", r.get(api+"/v2/prompts/p?version=2").at("labels"), []string{"latest"})
	list := r.get(api + "/v2/prompts?label=a")
	equal(t, "versions follow the label", list.at("data", 0, "versions"), []int{1})
	equal(t, "labels are all of these versions", list.at("data", 0, "labels"), []string{"a", "b", "production"})
	whole := r.get(api + "/v2/prompts?name=p&tag=t&fromUpdatedAt=2026-11-21T03:00:00Z")
	equal(t, "versions", whole.at("data", 0, "versions"), []int{1, 2})
	equal(t, "labels", whole.at("data", 0, "labels"), []string{"a", "b", "latest", "production"})
	equal(t, "usual page", whole.at("meta"), object{"page": 1, "limit": 10, "totalItems": 1, "totalPages": 1})
	r.must(400, r.do("DELETE", api+"/v2/prompts/p?version=2", nil))
	r.must(204, r.do("DELETE", api+"/v2/prompts/p", nil))
	r.must(404, r.do("DELETE", api+"/v2/prompts/p", nil))
	equal(t, "none left", r.get(api+"/v2/prompts").column("name"), []string{})
}

func TestPrompts_messages(t *testing.T) {
	r := newTestServer(t, Config{})
	r.must(201, r.post(api+"/v2/prompts", object{"name": "p", "prompt": "x"}))
	for path, want := range map[string]string{
		"/v2/prompts/p":                  "Prompt not found: 'p' with label 'production'",
		"/v2/prompts/p?label=nope":       "Prompt not found: 'p' with label 'nope'",
		"/v2/prompts/p?version=99":       "Prompt not found: 'p' with version 99",
		"/prompts?name=none&version=2":   "Prompt not found: 'none' with version 2",
		"/v2/prompts/q?label=production": "Prompt not found: 'q' with label 'production'",
	} {
		equal(t, path, r.must(404, r.get(api+path)).json, object{"message": want, "error": "LangfuseNotFoundError"})
	}
	both := r.must(400, r.get(api+"/v2/prompts/p?label=a&version=1"))
	equal(t, "both", both.at("message"), "Cannot specify both version and label")
	r.must(400, r.get(api+"/v2/prompts/p?version=x"))
	r.must(400, r.get(api+"/prompts"))
	r.must(404, r.do("PATCH", api+"/v2/prompts/p/versions/9", object{"newLabels": []string{"a"}}))
	for name, body := range map[string]object{
		"no prompt":      {"name": "x"},
		"empty name":     {"name": " ", "prompt": "x"},
		"bar in a name":  {"name": "a|b", "prompt": "x"},
		"bad label":      {"name": "x", "prompt": "x", "labels": []string{"Not OK"}},
		"latest":         {"name": "x", "prompt": "x", "labels": []string{"latest"}},
		"long label":     {"name": "x", "prompt": "x", "labels": []string{strings.Repeat("a", 37)}},
		"type changes":   {"name": "p", "type": "chat", "prompt": []object{{"role": "user", "content": "x"}}},
		"text as chat":   {"name": "x", "type": "chat", "prompt": "x"},
		"half a message": {"name": "x", "type": "chat", "prompt": []object{{"role": "user"}}},
		"unknown type":   {"name": "x", "type": "poem", "prompt": "x"},
		"long commit":    {"name": "x", "prompt": "x", "commitMessage": strings.Repeat("a", 501)},
		"missing part":   {"name": "x", "prompt": "@@@langfusePrompt:name=none|label=a@@@"},
		"broken tag":     {"name": "x", "prompt": "@@@langfusePrompt:none@@@"},
	} {
		r.post(api+"/v2/prompts", body).expect(t, name, 400, "")
	}
	equal(t, "nothing of it was kept", r.get(api+"/v2/prompts").column("name"), []string{"p"})
}

func TestPrompts_names(t *testing.T) {
	r := newTestServer(t, Config{})
	for _, name := range []string{"a/b/c", "50%off", "Ünïcode 😀", "a b?&"} {
		r.must(201, r.post(api+"/v2/prompts", object{"name": name, "prompt": "x", "labels": []string{"production"}}))
		equal(t, name, r.must(200, r.get(api+"/v2/prompts/"+url.PathEscape(name))).at("name"), name)
		escapedTwice := url.QueryEscape(strings.ReplaceAll(name, "%", "%25")) // this route decodes twice
		equal(t, name+" by query", r.must(200, r.get(api+"/prompts?name="+escapedTwice)).at("name"), name)
	}
	equal(t, "percent sent once", r.must(500, r.get(api+"/prompts?name="+url.QueryEscape("50%off"))).at("error"), "URI malformed")
	r.must(201, r.post(api+"/v2/prompts", object{"name": "a b?&", "prompt": "y", "labels": []string{"next"}}))
	equal(t, "a label is not heard", r.must(200, r.get(api+"/prompts?name=a+b%3F%26&label=next")).at("version"), 1)
	equal(t, "a version is", r.must(200, r.get(api+"/prompts?name=a+b%3F%26&version=2")).at("version"), 2)
}

func TestPrompts_chat(t *testing.T) {
	r := newTestServer(t, Config{})
	messages := []object{{"role": "system", "content": "be brief <b>"}, {"type": "placeholder", "name": "history"}, {"role": "user", "content": "{{q}}"}}
	r.must(201, r.post(api+"/v2/prompts", object{"name": "c", "type": "chat", "prompt": messages, "labels": []string{"production"}}))
	equal(t, "messages", r.get(api+"/v2/prompts/c").at("prompt"), messages)
}

func TestPrompts_composition(t *testing.T) {
	r := newTestServer(t, Config{})
	create := func(name, prompt string) answer {
		return r.post(api+"/v2/prompts", object{"name": name, "prompt": prompt, "labels": []string{"production"}})
	}
	tag := func(name string) string { return "@@@langfusePrompt:name=" + name + "|label=production@@@" }
	r.must(201, create("leaf", "LEAF {{x}}"))
	r.must(201, create("mid", "<"+tag("leaf")+"|@@@langfusePrompt:name=leaf|version=1@@@>"))
	r.must(201, r.post(api+"/v2/prompts", object{"name": "top", "type": "chat", "labels": []string{"production"},
		"prompt": []object{{"role": "user", "content": "a " + tag("mid") + " b"}}}))
	top := r.must(200, r.get(api+"/v2/prompts/top"))
	equal(t, "resolved", top.at("prompt", 0, "content"), "a <LEAF {{x}}|LEAF {{x}}> b")
	raw := r.must(200, r.get(api+"/v2/prompts/top?resolve=false"))
	equal(t, "raw", raw.at("prompt", 0, "content"), "a "+tag("mid")+" b")

	create("leaf", "back to "+tag("mid")).expect(t, "a circle", 400, "Circular")
	equal(t, "the refused version is gone", r.get(api+"/v2/prompts/leaf?label=latest").at("version"), 1)
	r.must(400, create("uses-chat", tag("top")))
	for i := 1; i <= 5; i++ {
		name, below := fmt.Sprint("deep", i), fmt.Sprint("deep", i-1)
		if i == 1 {
			below = "mid" // with two more levels below it
		}
		create(name, tag(below)).expect(t, name, map[bool]int{true: 201, false: 400}[i <= 3], "")
	}
	r.must(201, create("wide1", strings.Repeat(tag("leaf"), 1000)))
	create("wide2", strings.Repeat(tag("wide1"), 1000)).expect(t, "a prompt that multiplies", 400, "too long")
}
