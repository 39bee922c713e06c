package html

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"strings"
)

//go:embed assets
var files embed.FS

// assets are the parts of the page that are the same for every run.
type assets struct {
	*template.Template
	style, script string
}

// scripts and styles are joined in this order, inside of one function.
var (
	scriptFiles = [...]string{"dom.js", "data.js", "list.js", "marks.js", "item.js", "keys.js", "app.js"}
	styleFiles  = [...]string{"base.css", "overview.css", "list.css", "item.css"}
)

func loadAssets() (*assets, error) {
	t, err := template.ParseFS(files, "assets/*.tmpl")
	if err != nil {
		return nil, err
	}
	a := &assets{Template: t}
	if a.style, err = joined(styleFiles[:]); err != nil {
		return nil, err
	}
	a.script, err = joined(scriptFiles[:])
	a.script = "(function () {\n\"use strict\";\n" + a.script + "}());\n"
	return a, err
}

// joined reads files with the line ends that a browser sees, whatever a
// checkout made of them: their hash stands in the policy.
func joined(names []string) (string, error) {
	var b strings.Builder
	for _, name := range names {
		raw, err := files.ReadFile("assets/" + name)
		if err != nil {
			return "", err
		}
		b.WriteString(strings.ReplaceAll(string(raw), "\r\n", "\n"))
	}
	return b.String(), nil
}

// policy forbids everything that it does not name: no script, style, image,
// frame, form, base or connection but the two blocks of the page itself.
func (a *assets) policy() string {
	return "default-src 'none'; script-src " + hashOf(a.script) + "; style-src " + hashOf(a.style) +
		"; base-uri 'none'; form-action 'none'"
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
