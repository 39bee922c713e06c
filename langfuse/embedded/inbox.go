package embedded

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"extraction-experiment/internal/textutil"
)

// message is a row of the table inbox: a request that is acknowledged and not yet in the other
// tables. Langfuse has a queue in its place. The server stores a message as it was sent before it
// acknowledges the request. The message goes into the tables before the next request that reads
// them, or with SettleIdle when the server is idle. So a program that sends much does not wait
// for indices.
type message struct {
	seq      int64
	mode     Mode   // of the server that received it
	kind     string // see store
	received int64
	body     []byte // compressed in the table
}

// unpack decompresses the body of a message.
func (m *message) unpack() error {
	if bytes.HasPrefix(m.body, []byte("\x28\xb5\x2f\xfd")) { // of an older program, which used zstd
		reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxSpansBody))
		if err == nil {
			defer reader.Close()
			m.body, err = reader.DecodeAll(m.body, nil)
		}
		return err
	}
	n, err := s2.DecodedLen(m.body)
	if err == nil && n > 2*maxSpansBody {
		err = s2.ErrTooLarge
	}
	if err == nil {
		m.body, err = s2.Decode(nil, m.body)
	}
	return err
}

// anyExperiment stands for all experiments.
const anyExperiment = "*"

// enqueue stores a message, which goes into the tables after the delay at the earliest. It may
// change the entries of the experiments in the list of experiments, by spans or by scores. Their
// ids may be empty or repeated.
func (s *Server) enqueue(delay time.Duration, kind string, body []byte, experiments ...string) error {
	slices.Sort(experiments)
	experiments = slices.DeleteFunc(slices.Compact(experiments), func(id string) bool { return id == "" })
	received, due := s.now(), int64(0)
	if delay > 0 {
		due = received + delay.Milliseconds()
	}
	size := s2.MaxEncodedLen(len(body))
	buffer, release := s.buffer(int64(size))
	defer release()
	buffer.Grow(size)
	packed := s2.Encode(buffer.AvailableBuffer()[:buffer.Available()], body)
	return s.store.exec("INSERT INTO inbox(due, received, mode, kind, packing, body, latest, experiments) VALUES(?,?,?,?,'s2',?,0,?)",
		due, received, string(s.cfg.Mode), kind, packed, jsonList(experiments))
}

// maxSettleBytes is the uncompressed size of the messages that one transaction stores in the
// tables.
const maxSettleBytes = 2 << 20

// settle stores all messages that are due at the time of the call in the tables, in the order of
// their due times.
func (s *Server) settle() error {
	maxSeq, err := queryInt(s.store.r, "SELECT coalesce(max(seq), 0) FROM inbox")
	for more := maxSeq > 0; more && err == nil; {
		more, err = s.settleBatch(maxSeq)
	}
	return err
}

// settleExperiments calls settle if a waiting message may change the list entries of the
// experiments, or of any experiment if no ids are given. Messages that only change scores count
// if scores is set. A new run lists experiments, and need not wait until all of the previous run
// is in the tables.
func (s *Server) settleExperiments(ids []string, scores bool) error {
	n, err := queryInt(s.store.r, `SELECT count(*) FROM inbox, json_each(experiments) e
		WHERE (?1 OR kind IN (?2, ?3))
			AND (?5 = '[]' OR e.value = ?4 OR e.value IN (SELECT value FROM json_each(?5)))`,
		scores, protobufSpans, jsonSpans, anyExperiment, jsonList(ids))
	if err != nil || n == 0 {
		return err
	}
	return s.settle()
}

// settleBatch stores due messages up to maxSeq in one transaction and reports whether there may
// be more. If a message cannot be stored, it is set aside with the reason, so that it does not
// block others.
func (s *Server) settleBatch(maxSeq int) (more bool, err error) {
	now := s.now()
	const fromDue = " FROM inbox WHERE due <= ? AND seq <= ? ORDER BY due, seq LIMIT 1"
	if _, more, err = queryRow(s.store.r, scanValue[string], "SELECT kind"+fromDue, now, maxSeq); err != nil || !more {
		return false, err
	}
	var failedSeq int64 // of the message that could not be stored
	err = s.store.update(func(tx *transaction) error {
		failedSeq = 0
		for size := 0; size < s.maxSettleBytes; {
			m, found, err := queryRow(tx, scanRow[message], "SELECT seq, mode, kind, received, body"+fromDue, now, maxSeq)
			if err != nil || !found {
				return err
			}
			failedSeq = m.seq
			if err = m.unpack(); err == nil {
				err = m.store(tx)
			}
			if err = cmp.Or(tx.err, err); err != nil {
				return err
			}
			failedSeq = 0
			tx.exec("DELETE FROM inbox WHERE seq = ?", m.seq)
			size += len(m.body)
		}
		return nil
	})
	if err == nil || failedSeq == 0 || isTransient(err) {
		return true, err
	}
	return true, s.store.exec("UPDATE inbox SET due = ?, problem = ? WHERE seq = ?", math.MaxInt64, err.Error(), failedSeq)
}

// store writes the content of a message to the tables.
func (m message) store(tx *transaction) error {
	switch m.kind {
	case protobufSpans, jsonSpans:
		return storeSpans(tx, m)
	case "events":
		return storeEvents(tx, m)
	case "delete-score":
		tx.exec("DELETE FROM scores WHERE id = ?", string(m.body))
		return nil
	case "link":
		return storeRunItem(tx, m)
	}
	return fmt.Errorf("no message is of kind %q", textutil.Cut(m.kind, 100))
}

// isTransient reports whether an error comes from the disk or from another process that uses the
// file, and not from the data.
func isTransient(err error) bool {
	_, bySQLite := errors.AsType[*sqlite.Error](err)
	return bySQLite && !hasCode(err,
		sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH)
}

// maxSettlePause is the longest pause of SettleIdle between two tries.
const maxSettlePause = time.Minute

// SettleIdle stores waiting messages in the tables whenever no request has arrived for a second,
// until ctx is done. Without it, the next request that reads them has to wait, and returns the
// error if they cannot be stored. After an error, as of a full disk, SettleIdle tries again
// after pauses that grow to a minute.
func (s *Server) SettleIdle(ctx context.Context) {
	for pause := time.Second; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		idle := !s.requested.Swap(false)
		for more := true; idle && more && !s.requested.Load() && ctx.Err() == nil; {
			var err error
			if more, err = s.settleBatch(math.MaxInt); err != nil {
				pause = min(2*pause, maxSettlePause)
				break
			}
			pause = time.Second
		}
	}
}

func (m *message) columns() []any {
	return []any{&m.seq, &m.mode, &m.kind, &m.received, &m.body}
}
