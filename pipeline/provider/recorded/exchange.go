package recorded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Source is what was recorded: one model of one provider.
type Source struct {
	Provider string `json:"provider"` // "openai"
	Model    string `json:"model"`    // as it was asked for
}

// version is that of the format.
const version = 1

// header is the first line.
type header struct {
	Cassette int `json:"cassette"`
	Source
}

// request is what a key stands for.
type request struct {
	Model      string              `json:"model"`
	Messages   []pipeline.Message  `json:"messages"`
	Parameters pipeline.Parameters `json:"parameters"`
	Schema     *pipeline.Schema    `json:"schema,omitempty"`
}

// key is the SHA-256 of a request's JSON as it is written.
type key [sha256.Size]byte

// exchange is any other line. At least one of Response and Error is set.
type exchange struct {
	Key      string             `json:"key"`
	N        int                `json:"n"` // from 1, among equal requests
	Request  json.RawMessage    `json:"request"`
	Response *pipeline.Response `json:"response,omitempty"`
	Error    *failure           `json:"error,omitempty"`
}

// canonical returns a request as it is written, and its key: compact JSON with
// the fields in the order above and the schema's own order, because that order
// is part of what a model sees. Bytes that are not UTF-8 are written as \ufffd.
func canonical(model string, req pipeline.Request) (json.RawMessage, key, error) {
	text, err := encode(request{Model: model, Messages: req.Messages, Parameters: req.Parameters, Schema: req.Schema})
	if err != nil {
		return nil, key{}, fmt.Errorf("writing the request as JSON: %w", err)
	}
	return text, sha256.Sum256(text), nil
}

// encode writes compact JSON and leaves <, > and & readable.
func encode(value any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// decodeHeader reads the first line.
func decodeHeader(line []byte) (Source, error) {
	var h header
	if err := json.Unmarshal(line, &h); err != nil || h.Cassette == 0 {
		return Source{}, errors.New(`this is no cassette: its first line must be such as {"cassette":1,"provider":"openai","model":"gpt-4o"}`)
	}
	if h.Cassette != version {
		return Source{}, fmt.Errorf("the format is version %d, this program knows version %d: record again", h.Cassette, version)
	}
	if h.Model == "" {
		return Source{}, errors.New("the model's name is missing")
	}
	return h.Source, nil
}

// decode reads the line of an exchange with model and checks that it is whole:
// the key must be that of the request as it stands in the line.
func decode(line []byte, model string) (exchange, key, error) {
	var x exchange
	if err := decodeStrict(line, &x); err != nil {
		return x, key{}, fmt.Errorf("this is no exchange: %w", err)
	}
	var asked struct {
		Model string `json:"model"`
	}
	if err := json.Unmarshal(x.Request, &asked); err != nil {
		return x, key{}, fmt.Errorf("the request cannot be read: %w", err)
	}
	if asked.Model != model {
		return x, key{}, fmt.Errorf("the request is for the model %.60q and the cassette for %.60q", asked.Model, model)
	}
	sum := key(sha256.Sum256(x.Request))
	switch {
	case x.Key != hex.EncodeToString(sum[:]):
		return x, sum, errors.New("the key is not that of the request: one of them was changed")
	case x.N < 1:
		return x, sum, fmt.Errorf("n is %d: it counts from 1", x.N)
	case x.Response == nil && x.Error == nil:
		return x, sum, errors.New("there is neither a response nor an error")
	case x.Error != nil && x.Error.Class == outcome.OK:
		return x, sum, errors.New("the error has no class")
	}
	return x, sum, nil
}

// decodeStrict reads one JSON value and refuses unknown keys and what follows.
func decodeStrict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the JSON ends too early")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}
