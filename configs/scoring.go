package configs

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// ScoringJSON returns the scoring options of the file as JSON; {} if it has none.
func (e Experiment) ScoringJSON() ([]byte, error) {
	if len(e.Scoring) == 0 {
		return []byte("{}"), nil
	}
	raw, err := json.Marshal(e.Scoring)
	if err != nil {
		return nil, fmt.Errorf("the scoring options: %w", err)
	}
	return raw, nil
}

// LoadScoring reads a file of scoring options, in YAML or JSON by its ending,
// and returns it as JSON; an empty file of YAML has none of them. A second
// document is an error. Which options there are, the scorer knows.
func LoadScoring(path string) ([]byte, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".yaml", ".yml":
	default:
		return text, nil
	}
	options := map[string]any{}
	if err := strict(text, path, &options); err != nil {
		return nil, err
	}
	if options == nil { // the document is the word null
		return []byte("{}"), nil
	}
	raw, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return raw, nil
}
