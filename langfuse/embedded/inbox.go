package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/textutil"
)

// message is something that was acknowledged and is not in the tables yet: a row of
// inbox. Langfuse has a queue there. It is stored, as it was sent, before it is
// acknowledged, and goes into the tables when somebody reads them, or with SettleIdle when
// nobody asks for anything: a program that sends much need not wait for indices.
type message struct {
	seq      int64
	mode     Mode   // of the server that took it
	kind     string // see store
	received int64
	body     []byte // packed in the table
}

// unpack brings the body of a message into the form in which it came.
func (m *message) unpack() error {
	n, err := s2.DecodedLen(m.body)
	if err == nil && n > 2*maxSpansBody {
		err = s2.ErrTooLarge
	}
	if err == nil {
		m.body, err = s2.Decode(nil, m.body)
	}
	return err
}

// reach are the ids of the experiments whose list a message may change by its spans, or
// by its scores.
type reach []string

// anyExperiment stands for all of them, and among events for spans.
const anyExperiment = "*"

// add adds an experiment, if there is one.
func (r *reach) add(id string) {
	if id != "" && !slices.Contains(*r, id) {
		*r = append(*r, id)
	}
}

// take stores a message, which is put into the tables after the delay at the earliest.
func (s *Server) take(delay time.Duration, kind string, body []byte, about reach) error {
	received, due := s.now(), int64(0)
	if delay > 0 {
		due = received + delay.Milliseconds()
	}
	size := s2.MaxEncodedLen(len(body))
	buffer, release := s.buffer(int64(size))
	defer release()
	buffer.Grow(size)
	packed := s2.Encode(buffer.AvailableBuffer()[:buffer.Available()], body)
	return s.store.update(func(tx *transaction) error {
		_, err := tx.Exec("INSERT INTO inbox(due, received, mode, kind, packing, body, latest, experiments) VALUES(?,?,?,?,'s2',?,0,?)",
			due, received, string(s.cfg.Mode), kind, packed, joined(about))
		return err
	})
}

// maxSettled bounds what is put into the tables in one transaction, in bytes as they came.
const maxSettled = 2 << 20

// settle puts what is due into the tables, in the order in which it is: all that was there
// when it was called.
func (s *Server) settle() error {
	last, err := count(s.store.r, "SELECT coalesce(max(seq), 0) FROM inbox")
	for more := err == nil && last > 0; more && err == nil; {
		more, err = s.settleSome(last)
	}
	return err
}

// settleExperiments is settle where a message may change what is listed of the experiments
// of those ids, or of all where none are given, with their scores or without: to begin a
// run, somebody asks for that, and need not wait until all of the last one is in the tables.
func (s *Server) settleExperiments(ids []string, scores bool) error {
	n, err := count(s.store.r, `SELECT count(*) FROM inbox, json_each(experiments) e
		WHERE (?1 OR kind IN (?2, ?3) OR kind = 'events' AND e.value = ?4)
			AND (?5 = '[]' OR e.value = ?4 OR e.value IN (SELECT value FROM json_each(?5)))`,
		scores, protobufSpans, jsonSpans, anyExperiment, joined(ids))
	if err != nil || n == 0 {
		return err
	}
	return s.settle()
}

// settleSome does one transaction of it, of the messages up to that number, and reports
// whether there may be more. A message that cannot be stored is set aside, with the reason
// beside it, so that it holds up nothing.
func (s *Server) settleSome(last int) (more bool, err error) {
	now := s.now()
	const next = " FROM inbox WHERE due <= ? AND seq <= ? ORDER BY due, seq LIMIT 1"
	if _, more, err = one(s.store.r, scanValue[string], "SELECT kind"+next, now, last); err != nil || !more {
		return false, err
	}
	var failed int64 // the number of the message
	err = s.store.update(func(tx *transaction) error {
		failed = 0
		for size := 0; size < s.maxSettled; {
			m, found, err := one(tx, scanned[message], "SELECT seq, mode, kind, received, body"+next, now, last)
			if err != nil || !found {
				return err
			}
			failed = m.seq
			if err = m.unpack(); err == nil {
				err = m.store(tx)
			}
			if err != nil {
				return err
			}
			failed = 0
			if _, err := tx.Exec("DELETE FROM inbox WHERE seq = ?", m.seq); err != nil {
				return err
			}
			size += len(m.body)
		}
		return nil
	})
	if err == nil || failed == 0 || passing(err) {
		return true, err
	}
	return true, s.store.update(func(tx *transaction) error {
		_, err := tx.Exec("UPDATE inbox SET due = ?, problem = ? WHERE seq = ?", math.MaxInt64, err.Error(), failed)
		return err
	})
}

// store puts a message into the tables.
func (m message) store(tx *transaction) error {
	switch m.kind {
	case protobufSpans, jsonSpans:
		return storeSpans(tx, m)
	case "events":
		return storeEvents(tx, m)
	case "delete-score":
		return removeScore(tx, m)
	case "link":
		return storeRunItem(tx, m)
	}
	return fmt.Errorf("no message is of kind %q", textutil.Cut(m.kind, 100))
}

// passing says whether an error is of the disk or of who else has the file, and not of
// what was to be stored.
func passing(err error) bool {
	var of *sqlite.Error
	refused := []int{sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH}
	return errors.As(err, &of) && !slices.Contains(refused, of.Code()&0xff)
}

// SettleIdle puts what was sent into the tables while nobody has asked for anything for a
// second, until ctx is done. Without it, who first reads what was sent waits for that. Of an
// error who reads is told.
func (s *Server) SettleIdle(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		idle := !s.asked.Swap(false)
		for more := true; idle && more && !s.asked.Load() && ctx.Err() == nil; {
			more, _ = s.settleSome(math.MaxInt)
		}
	}
}

func (m *message) columns() []any {
	return []any{&m.seq, &m.mode, &m.kind, &m.received, &m.body}
}
