package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// Mismatch is one reason why two runs cannot be compared.
type Mismatch struct {
	What      string `json:"what"`
	Base      string `json:"base"`
	Candidate string `json:"candidate"`
	Advice    string `json:"advice,omitempty"` // what makes them comparable
}

// String says it in one line.
func (m Mismatch) String() string { return m.between("the base", "the candidate") }

func (m Mismatch) between(base, candidate string) string {
	text := m.What
	if m.Base != "" || m.Candidate != "" {
		text += fmt.Sprintf(": %s in %s, %s in %s", m.Base, base, m.Candidate, candidate)
	}
	if m.Advice != "" {
		text += "; " + m.Advice
	}
	return text
}

// absent stands for what a run does not say.
const absent = "unknown"

// compareHeaders lists what differs between the descriptions of two runs. A
// hash that is missing is no hash that is equal.
func (c *Comparer) compareHeaders(base, cand outcome.Header) []Mismatch {
	var list []Mismatch
	differ := func(what, b, c string) {
		list = append(list, Mismatch{What: what, Base: orAbsent(b), Candidate: orAbsent(c)})
	}
	must := func(what, b, c string) {
		if b != c || b == "" {
			differ(what, b, c)
		}
	}
	if base.Harness != cand.Harness {
		differ("harness", base.Harness, cand.Harness)
	}
	must("fingerprint of the dataset", base.Dataset.Fingerprint, cand.Dataset.Fingerprint)
	if base.Dataset.Fingerprint != cand.Dataset.Fingerprint && base.Dataset.Selection != cand.Dataset.Selection {
		differ("selection of items", orAll(base.Dataset.Selection), orAll(cand.Dataset.Selection))
	}
	must("scorer version", base.Scorer.Version, cand.Scorer.Version)
	if b, c := base.Scorer.Version, cand.Scorer.Version; b != c && b != "" && c != "" && base.Harness == "extraction" {
		list[len(list)-1].Advice = "experiment rescore scores the results of the older run again, without the model"
	}
	list = append(list, compareOptions(base.Scorer.Options, cand.Scorer.Options)...)
	for _, key := range c.config.Identities {
		b, inBase := base.Metadata[key]
		c, inCand := cand.Metadata[key]
		if key == outcome.QuestionsSHA256 && inBase && inCand && base.Dataset.Fingerprint != "" && base.Dataset.Fingerprint == cand.Dataset.Fingerprint {
			continue // the same questions, hashed in another form by an earlier version
		}
		if b != c || base.Harness == "answers" && (!inBase || !inCand) {
			differ(key, b, c)
		}
	}
	return list
}

// compareOptions names the scoring options that differ.
func compareOptions(base, cand json.RawMessage) []Mismatch {
	if bytes.Equal(base, cand) {
		return nil
	}
	b, bErr := options(base)
	c, cErr := options(cand)
	if bErr != nil || cErr != nil {
		return []Mismatch{{What: "scoring options", Base: orAbsent(string(base)), Candidate: orAbsent(string(cand))}}
	}
	var list []Mismatch
	both := maps.Clone(b)
	maps.Copy(both, c)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if b[key] != c[key] {
			list = append(list, Mismatch{What: "scoring option " + key, Base: orAbsent(b[key]), Candidate: orAbsent(c[key])})
		}
	}
	return list
}

// options returns the canonical text of every option; none for an absent value.
func options(raw json.RawMessage) (map[string]string, error) {
	texts := map[string]string{}
	if len(raw) == 0 {
		return texts, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, err
	}
	for key, value := range values {
		text, err := dataset.Canonical(value)
		if err != nil {
			return nil, err
		}
		texts[key] = string(text)
	}
	return texts, nil
}

// complete returns a Mismatch for a run that is not finished.
func complete(ctx context.Context, which string, s Source) ([]Mismatch, error) {
	f, ok, err := s.Footer(ctx)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return []Mismatch{{What: "the " + which + " is not finished: it is going on, or it was killed; finish it with --resume"}}, nil
	case f.Status != outcome.Complete:
		return []Mismatch{{What: fmt.Sprintf("the %s is not complete (%s); finish it with --resume", which, f.Status)}}, nil
	}
	return nil, nil
}

// itemSet is what is kept of the items of the base: the hash of each.
type itemSet map[string]string

// compareItems lists which items are in one run only, and which differ.
func (set itemSet) compareItems(ctx context.Context, cand Source) ([]Mismatch, error) {
	left := maps.Clone(set)
	var added, changed []string
	for item, err := range cand.Items(ctx) {
		if err != nil {
			return nil, err
		}
		hash, known := set[item.ID]
		switch {
		case !known:
			added = append(added, item.ID)
		case hash != "" && item.Hash != "" && hash != item.Hash:
			changed = append(changed, item.ID)
		}
		delete(left, item.ID)
	}
	var found []Mismatch
	for _, group := range []struct {
		ids  []string
		what string
	}{
		{slices.Collect(maps.Keys(left)), "only in the base"},
		{added, "only in the candidate"},
		{changed, "with other content"},
	} {
		if len(group.ids) > 0 {
			found = append(found, affected(group.ids, group.what))
		}
	}
	return found, nil
}

// affected is a Mismatch about some items, of which it names the first.
func affected(ids []string, what string) Mismatch {
	slices.Sort(ids)
	return Mismatch{What: fmt.Sprintf("%s %s: %s", printable.Counted(len(ids), "item"), what, list(ids[:min(5, len(ids))], len(ids)))}
}

func orAbsent(text string) string {
	if text == "" {
		return absent
	}
	return text
}

func orAll(selection string) string {
	if selection == "" {
		return "all"
	}
	return selection
}
