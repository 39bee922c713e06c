package embedded

import (
	"database/sql"
	"net/http"

	"github.com/google/uuid"
)

// link is a request to make an item part of a run.
type link struct {
	run         string
	description sql.NullString
	metadata    sql.NullString
	item        string
	trace, span string
	version     int64
	created     int64
}

// linkItem answers POST /dataset-run-items. The body is checked strictly, the
// item has to be active now or at datasetVersion. In events_only mode the
// experiment id is computed and nothing is stored; else the run is made where it
// does not exist, and every request makes another link.
func (s *Server) linkItem(c *call) (reply, error) {
	if text := s.cfg.linkText(); text != "" {
		return reply{}, &fault{status: http.StatusNotFound, body: object{"message": text}}
	}
	f, err := readForm(c, smallBody)
	if err != nil {
		return reply{}, err
	}
	l := readLink(f, s.now())
	s.cfg.forget(f)
	f.only()
	if err := f.err(); err != nil {
		return reply{}, err
	}
	it, exists, err := findItem(s.store.r, l.item, l.version)
	if err != nil {
		return reply{}, err
	}
	if !exists || it.status != "ACTIVE" {
		return reply{}, notFound("Dataset item not found")
	}
	id, runID := uuid.NewString(), experimentID(s.cfg.ProjectID, it.datasetID, l.run)
	if s.cfg.Mode.legacy() {
		if runID, err = s.storeLink(id, it, &l); err != nil {
			return reply{}, err
		}
	}
	return ok(runItem{id, runID, l.run, it.id, l.trace, l.span, l.created}.json())
}

func readLink(f *form, now int64) link {
	l := link{run: f.must("runName"), item: f.must("datasetItemId"), description: nullText(f, "runDescription"),
		trace: f.text("traceId"), span: f.text("observationId"), metadata: nullJSON(f, "metadata")}
	l.version, _ = f.instant("datasetVersion")
	var given bool
	if l.created, given = f.instant("createdAt"); !given {
		l.created = now
	}
	if l.trace == "" && l.span == "" {
		f.issues = append(f.issues, issue{Code: "custom", Path: []any{"observationId", "traceId"},
			Message: "observationId or traceId must be provided"})
	}
	return l
}

// storeLink makes the run at once, and the link too unless it has to wait for its
// turn in the queue.
func (s *Server) storeLink(id string, it item, l *link) (run string, err error) {
	if l.trace == "" {
		if l.trace, err = s.traceOfSpan(l.span); err != nil {
			return "", err
		}
	}
	insert := func(tx *transaction) error {
		if s.cfg.drops(DropRunItem, it.id) {
			return nil
		}
		_, err := tx.Exec(`INSERT INTO run_items(id, run_id, item_id, trace_id, observation_id, created) VALUES(?,?,?,?,?,?)`,
			id, run, it.id, l.trace, l.span, l.created)
		return err
	}
	waits := s.cfg.IngestionDelay > 0
	err = s.store.update(func(tx *transaction) error {
		run, err = findOrCreateRun(tx, it.datasetID, *l)
		if err != nil || waits {
			return err
		}
		return insert(tx)
	})
	if err != nil || !waits {
		return run, err
	}
	return run, s.later(s.cfg.IngestionDelay, insert)
}

func (s *Server) traceOfSpan(span string) (string, error) {
	traces, err := collect(s.store.r, scanText, "SELECT trace_id FROM observations WHERE span_id = ? LIMIT 1", span)
	if err != nil {
		return "", err
	}
	if len(traces) == 0 {
		return "", notFound("Observation not found")
	}
	return traces[0], nil
}

// runItem is one link as it is read back.
type runItem struct {
	id, run, runName, item, trace, span string
	created                             int64
}

func (i runItem) json() object {
	return object{"id": i.id, "datasetRunId": i.run, "datasetRunName": i.runName, "datasetItemId": i.item,
		"traceId": i.trace, "observationId": nullable(i.span), "createdAt": iso(i.created), "updatedAt": iso(i.created)}
}

// newestLinks selects of each item of a run the link that was made last.
const newestLinks = ` FROM run_items i JOIN runs r ON r.id = i.run_id WHERE i.run_id = ? AND NOT EXISTS (
	SELECT 1 FROM run_items n WHERE n.run_id = i.run_id AND n.item_id = i.item_id
		AND (n.created, n.seq) > (i.created, i.seq))`

func readLinks(q querier, run string, p page) ([]object, error) {
	return collect(q, func(rows *sql.Rows) (object, error) {
		var i runItem
		err := rows.Scan(&i.id, &i.run, &i.runName, &i.item, &i.trace, &i.span, &i.created)
		return i.json(), err
	}, "SELECT i.id, r.id, r.name, i.item_id, i.trace_id, i.observation_id, i.created"+newestLinks+
		" ORDER BY i.created DESC, i.seq DESC LIMIT ? OFFSET ?", run, p.limit, p.offset())
}

// listRunItems answers GET /dataset-run-items?datasetId&runName: one link per
// item, the newest one, the latest first.
func (s *Server) listRunItems(c *call) (reply, error) {
	p, err := c.page(50)
	if err != nil {
		return reply{}, err
	}
	for _, key := range []string{"datasetId", "runName"} {
		if !c.query.Has(key) {
			return reply{}, badData(issue{Code: "invalid_type", Path: []any{key},
				Message: "Invalid input: expected string, received undefined"})
		}
	}
	found, err := collect(s.store.r, scanRun, "SELECT "+runColumns+` FROM runs r JOIN datasets d ON d.id = r.dataset_id
		WHERE r.dataset_id = ? AND r.name = ?`, c.query.Get("datasetId"), c.query.Get("runName"))
	if err != nil {
		return reply{}, err
	}
	if len(found) == 0 {
		return reply{}, notFound("Dataset run not found for the given project and dataset id")
	}
	total, err := count(s.store.r, "SELECT count(*)"+newestLinks, found[0].id)
	if err != nil {
		return reply{}, err
	}
	data, err := readLinks(s.store.r, found[0].id, p)
	if err != nil {
		return reply{}, err
	}
	return ok(object{"data": data, "meta": p.meta(total)})
}
