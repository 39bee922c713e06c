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

// signatureHeader is where Langfuse signs: t=<unix seconds>,v1=<hex>, the HMAC-SHA256 of
// "<t>.<raw body>".
const signatureHeader = "X-Langfuse-Signature"

// maxAge is how far the time of a signature may be from ours.
const maxAge = 5 * time.Minute

// signature is what a header says, read and not yet compared.
type signature struct {
	stamp string // t as it was sent
	at    time.Time
	sums  []string // in hex
}

// readSignature reads the headers of a request. Other schemes than v1 are left out.
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
			if err != nil || s.stamp != "" {
				return s, errors.New("the signature has no readable t")
			}
			s.stamp, s.at = value, time.Unix(int64(seconds), 0)
		case "v1":
			s.sums = append(s.sums, strings.ToLower(value))
		}
	}
	if s.stamp == "" || len(s.sums) == 0 {
		return s, errors.New("the signature is not of the form t=…,v1=…")
	}
	if off := now.Sub(s.at); off > maxAge || off < -maxAge {
		return s, fmt.Errorf("the signature is %s off, more than %s: is a clock wrong, or was the request sent again?",
			off.Round(time.Second), maxAge)
	}
	return s, nil
}

// of reports whether the signature is that of the body under one of the secrets. How long
// it takes does not depend on where sums differ.
func (s signature) of(body []byte, secrets []secret.Secret) bool {
	valid := false
	for _, key := range secrets {
		mac := hmac.New(sha256.New, []byte(key.Reveal()))
		mac.Write([]byte(s.stamp + "."))
		mac.Write(body)
		want := hex.AppendEncode(nil, mac.Sum(nil))
		for _, sum := range s.sums {
			valid = hmac.Equal(want, []byte(sum)) || valid
		}
	}
	return valid
}

// readBody reads what Langfuse sends: dataset, and settings as they were written. Keys that
// it does not know are left out.
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

// mostEncoded is how often a payload may be encoded: Langfuse sends a text that holds
// JSON, sometimes one that holds such a text.
const mostEncoded = 3

// readPayload returns the settings of a payload: an object, or a text that holds one; none
// where it is absent, null or blank.
func readPayload(raw json.RawMessage) (map[string]string, error) {
	for range mostEncoded {
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

// allowed returns the settings in their canonical form if the file allows all of them; else
// every problem.
func allowed(file configs.Trigger, r request) (map[string]string, error) {
	run, ok := file.Datasets[r.Dataset]
	if !ok {
		return nil, fmt.Errorf("the dataset %s may not be run from here; the trigger file names those that may",
			textutil.Brief(r.Dataset, 100))
	}
	var problems []error
	settings := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		rule, ok := run.Allow[key]
		value, err := rule.Canonical(key, r.Settings[key])
		if !ok {
			may := strings.Join(slices.Sorted(maps.Keys(run.Allow)), ", ")
			err = fmt.Errorf("the payload may not set %s; it may set: %s", textutil.Brief(key, 100), cmp.Or(may, "nothing"))
		}
		if err != nil {
			problems = append(problems, err)
		}
		settings[key] = value
	}
	if len(problems) > mostProblems {
		problems = append(problems[:mostProblems], fmt.Errorf("and %d problems more", len(problems)-mostProblems))
	}
	return settings, errors.Join(problems...)
}

// mostProblems bounds what is said of one payload.
const mostProblems = 10
