package trigger

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/configs"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// signatureHeader is the header with the signature of Langfuse: t=<unix seconds>,v1=<hex>, where v1
// is the HMAC-SHA256 of "<t>.<raw body>".
const signatureHeader = "X-Langfuse-Signature"

// maxAge is the maximal difference between the time of a signature and the local clock.
const maxAge = 5 * time.Minute

// signature is a parsed header. It is not verified yet.
type signature struct {
	timestamp string // t as sent
	time      time.Time
	sums      []string // v1 in hex
}

// readSignature parses the signature in the headers of a request and checks its time. It ignores
// schemes other than v1.
func readSignature(headers []string, now time.Time) (s signature, err error) {
	if len(headers) != 1 {
		return s, fmt.Errorf("one header %s is expected, there are %d: turn signing on in Langfuse",
			signatureHeader, len(headers))
	}
	for part := range strings.SplitSeq(headers[0], ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "t":
			seconds, err := strconv.ParseUint(value, 10, 40)
			if err != nil || s.timestamp != "" {
				return s, errors.New("the signature has no readable t")
			}
			s.timestamp, s.time = value, time.Unix(int64(seconds), 0)
		case "v1":
			s.sums = append(s.sums, strings.ToLower(value))
		}
	}
	if s.timestamp == "" || len(s.sums) == 0 {
		return s, errors.New("the signature is not of the form t=…,v1=…")
	}
	if age := now.Sub(s.time); age > maxAge || age < -maxAge {
		return s, fmt.Errorf("the signature is %s off, more than %s: is a clock wrong, or was the request sent again?",
			age.Round(time.Second), maxAge)
	}
	return s, nil
}

// verify reports whether the signature matches the body and one of the secrets. Its running time
// does not depend on where sums differ.
func (s signature) verify(body []byte, secrets []secret.Secret) bool {
	valid := false
	for _, key := range secrets {
		mac := hmac.New(sha256.New, []byte(key.Reveal()))
		mac.Write([]byte(s.timestamp + "."))
		mac.Write(body)
		want := hex.AppendEncode(nil, mac.Sum(nil))
		for _, sum := range s.sums {
			valid = hmac.Equal(want, []byte(sum)) || valid
		}
	}
	return valid
}

// readBody parses the body that Langfuse sends and returns dataset and settings as written. It
// ignores unknown keys.
func readBody(body []byte) (r request, err error) {
	var sent struct {
		DatasetName string          `json:"datasetName"`
		Payload     json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return r, fmt.Errorf("the body is not a JSON object as Langfuse sends it: %w", err)
	}
	if sent.DatasetName == "" {
		return r, errors.New("the body names no dataset (datasetName): only the Run button of a dataset is served here")
	}
	r.Dataset = sent.DatasetName
	r.Settings, err = readPayload(sent.Payload)
	return r, err
}

// maxEncodings is how many times a payload may be encoded as a JSON string. Langfuse encodes it
// once or twice.
const maxEncodings = 3

// readPayload returns the settings of a payload: an object, or a text that holds one. An absent,
// null or blank payload has no settings.
func readPayload(raw json.RawMessage) (map[string]string, error) {
	for range maxEncodings {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			break
		}
		raw = json.RawMessage(text)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return map[string]string{}, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf(`the payload is not a JSON object of settings, such as {"temperature": 0}: %w`, err)
	}
	settings := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		var text string
		switch value := object[key]; {
		case bytes.ContainsAny(value[:1], "{[n"): // an object, a list, null
			return nil, fmt.Errorf("the payload: %s is neither a text nor a number, true or false",
				textutil.Brief(key, 100))
		case json.Unmarshal(value, &text) == nil:
			settings[key] = text
		default:
			settings[key] = string(value)
		}
	}
	return settings, nil
}

// checkSettings returns the settings in canonical form if the trigger file allows all of them, else
// as they are, with an error that has every problem.
func checkSettings(file configs.Trigger, r request) (map[string]string, error) {
	run, ok := file.Datasets[r.Dataset]
	if !ok {
		return r.Settings, fmt.Errorf("the dataset %s may not be run from here; the trigger file names those that may",
			textutil.Brief(r.Dataset, 100))
	}
	var problems []error
	settings := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		rule, ok := run.Allow[key]
		value, err := rule.Canonical(key, r.Settings[key])
		if !ok {
			names := strings.Join(slices.Sorted(maps.Keys(run.Allow)), ", ")
			err = fmt.Errorf("the payload may not set %s; it may set: %s", textutil.Brief(key, 100), cmp.Or(names, "nothing"))
		}
		if err != nil {
			problems = append(problems, err)
		}
		settings[key] = value
	}
	if len(problems) > maxProblems {
		problems = append(problems[:maxProblems], fmt.Errorf("and %d problems more", len(problems)-maxProblems))
	}
	if len(problems) > 0 {
		return r.Settings, errors.Join(problems...)
	}
	return settings, nil
}

// maxProblems is how many problems an error about a payload lists.
const maxProblems = 10
