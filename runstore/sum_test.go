package runstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
)

// TestSum_oneBit flips one bit at many places of a file. The export must not have an item or an
// outcome that was not written.
func TestSum_oneBit(t *testing.T) {
	path, whole := damagedRun(t)
	content, err := os.ReadFile(path)
	noError(t, err)
	lines := map[string]bool{}
	for line := range strings.Lines(whole) {
		lines[line] = true
	}
	rng := rand.New(rand.NewPCG(1, 2))
	found, flips := 0, suite.SampleOr(40, 100)
	for range flips {
		at, bit := rng.IntN(len(content)), byte(1)<<rng.IntN(8)
		damaged := bytes.Clone(content)
		damaged[at] ^= bit
		noError(t, os.WriteFile(path, damaged, 0o600))
		r, err := Salvage(t.Context(), path)
		if err != nil {
			continue
		}
		var b strings.Builder
		if err := r.Export(t.Context(), &b); err != nil {
			found++
		}
		noError(t, r.Close())
		for line := range strings.Lines(b.String()) {
			row := strings.HasPrefix(line, `{"kind":"item"`) || strings.HasPrefix(line, `{"kind":"outcome"`)
			if row && !lines[line] {
				t.Errorf("byte %d, bit %d: a row that was not written: %.200s", at, bit, line)
			}
		}
	}
	if found < flips*3/10 { // most of the file are details
		t.Errorf("%d of %d flips were found", found, flips)
	}
}

// execSQL changes a closed run without any checks.
func execSQL(t *testing.T, path, statement string) {
	t.Helper()
	db, err := connect(path, "rw")
	noError(t, err)
	_, err = db.Exec(statement)
	noError(t, errors.Join(err, db.Close()))
}

// downgrade converts a run to version 1, with unpacked values and the large parts in body.
func downgrade(t *testing.T, path string) {
	t.Helper()
	r := mustLoad(t, path)
	var details []string
	for o := range r.Outcomes(t.Context(), Query{Depth: Full}) {
		stored := body{Detail: o.Detail}
		for _, s := range o.Scores {
			counts, err := json.Marshal(s.Counts)
			noError(t, err)
			stored.Notes = append(stored.Notes, note{s.Comment, counts})
		}
		text, err := json.Marshal(stored)
		noError(t, err)
		details = append(details, string(text))
	}
	noError(t, r.Close())
	db, err := connect(path, "rw")
	noError(t, err)
	for i, text := range details {
		_, err = db.Exec("UPDATE detail SET body = ?, sum = NULL WHERE oid = ?", text, i+1)
		noError(t, err)
	}
	_, err = db.Exec("ALTER TABLE detail DROP COLUMN large; ALTER TABLE detail DROP COLUMN large_sum; DROP TABLE dictionary; PRAGMA user_version=1")
	noError(t, errors.Join(err, db.Close()))
}

// TestPack_dictionaryTwice: one copy of a dictionary is enough to read the rows packed with it.
func TestPack_dictionaryTwice(t *testing.T) {
	run := newRun(t, 40)
	commitOutcomes(t, run, 40, 2000)
	noError(t, run.Close())
	for _, statement := range []string{
		"UPDATE dictionary SET content = x'00' WHERE copy = 0",
		"DELETE FROM dictionary WHERE copy = 0",
	} {
		execSQL(t, run.Path(), statement)
		r := mustLoad(t, run.Path())
		if got := len(collect(t, r, Query{Depth: Full})); got != 40 {
			t.Errorf("%s: %d outcomes", statement, got)
		}
		noError(t, errors.Join(r.Check(t.Context()), r.Close()))
	}
}

// TestPack_dictionaryLost: without both copies of a dictionary the rows packed with it are
// damaged, and the run can be continued.
func TestPack_dictionaryLost(t *testing.T) {
	run := newRun(t, 2)
	noError(t, run.Commit(t.Context(), testOutcome(0, 3000)))
	noError(t, run.Close())
	execSQL(t, run.Path(), "UPDATE dictionary SET content = x'00'")
	reopened := mustOpen(t, run.Path())
	noError(t, reopened.Commit(t.Context(), testOutcome(1, 3000)))
	for id, want := range map[string]error{"item-000000": ErrDamaged, "item-000001": nil} {
		var got error
		for _, err := range reopened.Outcomes(t.Context(), Query{Item: id, Depth: Full}) {
			got = err
		}
		if !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

// TestUnpublished_fromMemory: outcomes from memory equal those in the file, and acknowledged ones
// are dropped.
func TestUnpublished_fromMemory(t *testing.T) {
	run := newRun(t, 3)
	o := testOutcome(0, 2000)
	o.Seq = 1
	o.Calls = []outcome.Call{{Name: "extract", Kind: "generation", Started: time.Now(), Ended: time.Now(), Input: json.RawMessage(` [ "a" ] `), Warnings: []string{"odd"}}}
	o.Started, o.Ended = time.Now(), time.Now().Add(time.Second)
	noError(t, run.CommitItem(t.Context(), testItem(0), o, nil))
	fresh, err := run.Unpublished(t.Context(), 0, 10)
	noError(t, err)
	read, err := run.Reader.Unpublished(t.Context(), 0, 10)
	noError(t, err)
	if len(fresh) != 1 || fresh[0].Source == nil || read[0].Source != nil {
		t.Fatalf("%+v", fresh)
	}
	source := *fresh[0].Source
	fresh[0].Source = nil
	if diff := cmp.Diff(read, fresh, cmpopts.EquateEmpty()); diff != "" || source.ID != fresh[0].Item {
		t.Error(diff)
	}
	odd := testOutcome(1, 100)
	odd.Warnings = []string{"\xff"}
	noError(t, run.CommitItem(t.Context(), testItem(1), odd, nil))
	noError(t, run.Commit(t.Context(), testOutcome(2, 100)))
	if page, err := run.Unpublished(t.Context(), 1, 10); err != nil || len(page) != 2 || page[0].Source != nil {
		t.Errorf("what is not in memory is read: %+v %v", page, err)
	}
	noError(t, run.Ack(t.Context(), Spans, 1)) // scores need only a small part
	if recent := run.writer.tx.recent; recent.bytes != 0 || len(recent.rows) != 0 {
		t.Errorf("%d bytes of %d rows are kept", recent.bytes, len(recent.rows))
	}
}

// TestRoom: Room returns a channel from fullRecent on, which is closed when a third of that is
// free.
func TestRoom(t *testing.T) {
	run := newRun(t, 8)
	if run.Room() != nil {
		t.Fatal("an empty run has no room")
	}
	committed := 0
	for ; run.Room() == nil && committed < 8; committed++ {
		o := testOutcome(committed, 1)
		o.Seq, o.Output = int64(committed+1), json.RawMessage(`"`+strings.Repeat("x", fullRecent/5)+`"`)
		noError(t, run.CommitItem(t.Context(), testItem(committed), o, nil))
	}
	room := run.Room()
	if room == nil || committed != 5 { // each is slightly larger than its output
		t.Fatalf("room after %d outcomes: %v", committed, room)
	}
	if !run.MemoryHalfFull() {
		t.Error("five fifths are no half")
	}
	for oid := int64(1); oid <= 2; oid++ { // three fifths are left
		select {
		case <-room:
			t.Fatalf("room when %d of 5 are published", oid-1)
		default:
		}
		noError(t, run.Ack(t.Context(), All, oid))
	}
	<-room
	if run.Room() != nil {
		t.Error("there is no room again")
	}
	run.Forget(3) // it is refused
	if run.MemoryHalfFull() {
		t.Error("two fifths are a half")
	}
}

// TestSum_everyColumn: Check detects a change of any column.
func TestSum_everyColumn(t *testing.T) {
	for _, statement := range []string{
		"UPDATE item SET input = replace(input, 'document', 'documend') WHERE seq = 1",
		"UPDATE item SET expected = NULL WHERE seq = 1",
		"UPDATE item SET metadata = '{}' WHERE seq = 1",
		"UPDATE item SET hash = 'x' WHERE seq = 1",
		"UPDATE item SET source = '{}' WHERE seq = 1",
		"UPDATE outcome SET class = 'timeout' WHERE oid = 1",
		"UPDATE outcome SET trial = 2 WHERE oid = 1",
		"UPDATE outcome SET seq = 3 WHERE oid = 1",
		"UPDATE outcome SET started = started + 1 WHERE oid = 1",
		"UPDATE outcome SET ended = NULL WHERE oid = 1",
		"UPDATE outcome SET latency = latency + 1 WHERE oid = 1",
		"UPDATE outcome SET tokens = '[1200,301,0,0]' WHERE oid = 1",
		"UPDATE outcome SET cost = 0.0124 WHERE oid = 1",
		"UPDATE outcome SET scores = NULL WHERE oid = 1",
		"UPDATE meta SET value = replace(value, 'entity_f1', 'entity_f2') WHERE key = 'words'",
		"UPDATE detail SET body = replace(body, 'matched', 'matches') WHERE oid = 1",
		"UPDATE detail SET large = (SELECT large FROM detail WHERE oid = 2) WHERE oid = 1",
		"UPDATE detail SET large = substr(large, 1, length(large) - 1) WHERE oid = 1",
		"UPDATE dictionary SET content = replace(content, 'organization', 'organisation')",
		"DELETE FROM dictionary",
		"UPDATE detail SET body = (SELECT body FROM detail WHERE oid = 2), sum = (SELECT sum FROM detail WHERE oid = 2) WHERE oid = 1",
	} {
		run := newRun(t, 3)
		commitOutcomes(t, run, 2, 3000)
		noError(t, run.Close())
		execSQL(t, run.Path(), statement)
		r := mustLoad(t, run.Path())
		if err := r.Check(t.Context()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", statement, err)
		}
		noError(t, r.Close())
	}
}

// TestSum_olderFile: a file without checksums is read and resumed, and its items are checked by
// their hash.
func TestSum_olderFile(t *testing.T) {
	run, err := Create(Path(t.TempDir(), "", "contracts", "old"), testHeader())
	noError(t, err)
	noError(t, run.AddItems(t.Context(), testItems(0, 3)))
	noError(t, run.Commit(t.Context(), testOutcome(0, 1000)))
	noError(t, run.Close())
	path := run.Path()
	downgrade(t, path)
	execSQL(t, path, "ALTER TABLE item DROP COLUMN sum; ALTER TABLE outcome DROP COLUMN sum; ALTER TABLE detail DROP COLUMN sum")
	check := func(outcomes int) error {
		r := mustLoad(t, path)
		defer func() { noError(t, r.Close()) }()
		if got := len(collect(t, r, Query{Depth: Full})); got != outcomes {
			t.Errorf("%d outcomes, want %d", got, outcomes)
		}
		return r.Check(context.Background())
	}
	noError(t, check(1))
	reopened := mustOpen(t, path)
	noError(t, reopened.Commit(t.Context(), testOutcome(1, 1000)))
	noError(t, reopened.Close())
	noError(t, check(2))
	execSQL(t, path, "UPDATE item SET input = replace(input, 'document', 'documend') WHERE seq = 2")
	if err := check(2); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "item-000001") {
		t.Errorf("another input: %v", err)
	}
}

// TestSum_oddValues: values that the file stores in another form do not count as damage.
func TestSum_oddValues(t *testing.T) {
	run := newRun(t, 1)
	o := testOutcome(0, 100)
	minus := math.Copysign(0, -1)
	o.CostUSD, o.Class, o.Failure = &minus, "odd\xff", &outcome.Failure{Class: "odd\xff", Message: "m\xff"}
	o.Scores[0].Name, o.Scores[0].Reason = "n\xff", strings.Repeat("long ", 100)
	noError(t, run.Commit(t.Context(), o))
	noError(t, run.Check(t.Context()))
}
