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

// kind is what a page is of: it decides which script and style it carries.
type kind int

const (
	ofRuns       kind = iota // runs, one or side by side
	ofComparison             // a base and its candidates
	still                    // a page without script
)

// scripts are joined in this order, inside of one function.
func (k kind) scripts() []string {
	switch k {
	case ofRuns:
		return []string{"dom.js", "data.js", "runs.js", "list.js", "marks.js", "item.js", "keys.js", "app.js"}
	case ofComparison:
		return []string{"dom.js", "data.js", "pairs.js", "list.js", "marks.js", "item.js", "pair.js", "keys.js", "app.js"}
	}
	return nil
}

func (k kind) styles() []string {
	list := []string{"base.css", "overview.css", "list.css", "item.css"}
	if k != ofRuns {
		list = append(list, "compare.css", "still.css")
	}
	return list
}

func loadAssets(k kind) (*assets, error) {
	t, err := template.ParseFS(files, "assets/*.tmpl")
	if err != nil {
		return nil, err
	}
	a := &assets{Template: t}
	if a.style, err = joined(k.styles()); err != nil {
		return nil, err
	}
	if k == still {
		return a, nil
	}
	a.script, err = joined(k.scripts())
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
// frame, form, base or connection but the two blocks of the page itself. A page
// without script may ask its own server.
func (a *assets) policy() string {
	script, form := hashOf(a.script), "'none'"
	if a.script == "" {
		script, form = "'none'", "'self'"
	}
	return "default-src 'none'; script-src " + script + "; style-src " + hashOf(a.style) +
		"; base-uri 'none'; form-action " + form
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
