package bench

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compileSchema makes a case's schema ready to validate records.
func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	const most = 1 << 20 // bytes
	if len(raw) > most {
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource("case:targetSchema", document); err != nil {
		return nil, err
	}
	return compiler.Compile("case:targetSchema")
}

// noLoader refuses every reference to another document: a schema may not read
// files.
type noLoader struct{}

// Load returns an error.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside the schema: write it into $defs", url)
}
