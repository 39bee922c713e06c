package embedded

import (
	"github.com/google/uuid"
)

const maxItemID = 255

// itemChange is what a request says about an item; fields without set keep
// what is stored.
type itemChange struct {
	dataset, id, status       string
	input, expected, metadata value
	sourceTrace, sourceSpan   string
}

// upsertItem answers POST /dataset-items. The id is the key, unique over all
// datasets of the project. Absent and null fields keep their value, and every
// request writes a new version even if it changes nothing.
func (s *Server) upsertItem(c *call) (reply, error) {
	f, err := readForm(c, largeBody)
	if err != nil {
		return reply{}, err
	}
	change := readItemChange(f)
	if err := f.err(); err != nil {
		return reply{}, err
	}
	var stored item
	err = s.store.update(func(tx *transaction) error {
		d, exists, err := datasetByName(tx, change.dataset)
		if err != nil {
			return err
		}
		if !exists {
			return notFound("Dataset %s not found for project %s", clip(change.dataset, 300), s.cfg.ProjectID)
		}
		if stored, err = mergeItem(tx, d, change); err != nil {
			return err
		}
		v, err := newValidator(d)
		if err != nil {
			return err
		}
		finding, err := v.check(stored.input, stored.expected)
		if err != nil {
			return err
		}
		if finding != "" {
			return invalid("Dataset item validation failed: %s", finding)
		}
		now, err := supersede(tx, stored.id, s.now())
		if err != nil {
			return err
		}
		stored.created, stored.updated = now, now
		return insertVersion(tx, stored, now, false)
	})
	if err != nil {
		return reply{}, err
	}
	return ok(stored.json())
}

func readItemChange(f *form) itemChange {
	change := itemChange{
		dataset: f.must("datasetName"), id: f.text("id"), status: f.text("status"),
		input: readValue(f, "input"), expected: readValue(f, "expectedOutput"), metadata: readValue(f, "metadata"),
		sourceTrace: f.text("sourceTraceId"), sourceSpan: f.text("sourceObservationId"),
	}
	if f.has("id") && change.id == "" {
		f.add("too_small", "id", "Too small: expected string to have >=1 characters")
	}
	if len([]rune(change.id)) > maxItemID {
		f.add("too_big", "id", "Too big: expected string to have <=255 characters")
	}
	if change.status != "" && change.status != "ACTIVE" && change.status != "ARCHIVED" {
		f.add("invalid_value", "status", `Invalid option: expected one of "ACTIVE"|"ARCHIVED"`)
	}
	return change
}

// mergeItem lays a change over the stored item, or over an empty one.
func mergeItem(tx *transaction, d dataset, change itemChange) (item, error) {
	if change.id == "" {
		if !change.input.json.Valid {
			return item{}, invalid("Dataset item input cannot be null")
		}
		change.id = uuid.NewString()
	}
	it, exists, err := findItem(tx, change.id, 0)
	if err != nil {
		return item{}, err
	}
	if exists && it.datasetID != d.id {
		return item{}, conflict("Dataset item with id %s already exists in another dataset of the project", change.id)
	}
	if !exists {
		it = item{id: change.id, status: "ACTIVE"}
	}
	it.datasetID, it.dataset = d.id, d.name
	it.status = orElse(change.status, it.status)
	it.sourceTrace = orElse(change.sourceTrace, it.sourceTrace)
	it.sourceSpan = orElse(change.sourceSpan, it.sourceSpan)
	it.input = change.input.over(it.input)
	it.expected = change.expected.over(it.expected)
	it.metadata = change.metadata.over(it.metadata)
	return it, nil
}
