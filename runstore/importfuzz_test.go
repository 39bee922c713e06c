package runstore

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
)

// parseAll returns the lines of an export up to the first error, and reports whether the export is
// complete.
func parseAll(text []byte) (lines []importable, whole bool) {
	var p lineParser
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		line, err := p.parse(scanner.Bytes())
		if err != nil {
			return lines, false
		}
		lines = append(lines, line)
	}
	return lines, scanner.Err() == nil && p.kind == kindFooter
}

// storedLine converts a line to the form of the tables and back, and returns it as Export writes
// it.
func storedLine(t *testing.T, line importable) []byte {
	t.Helper()
	var written any = line
	switch l := line.(type) {
	case itemRow:
		text := func(column int) string { s, _ := l.values[column].(string); return s }
		var from source
		if text(6) != "" {
			noError(t, json.Unmarshal([]byte(text(6)), &from))
		}
		written = itemLine{
			Kind: kindItem, ID: l.id, Seq: l.values[0].(sql.NullInt64).Int64, Hash: text(2), Item: dataset.Item{
				Input: json.RawMessage(text(3)), Expected: json.RawMessage(text(4)), Metadata: json.RawMessage(text(5)),
				SourceTraceID: from.Trace, SourceObservationID: from.Observation,
			}}
	case *outcomeRow:
		w := &scoreNames{}
		o := outcome.Outcome{
			Item: l.Item, Seq: l.Seq, Trial: l.Trial, Attempt: l.Attempt, Class: l.Class,
			Started: timeOf(l.started), Ended: timeOf(l.ended), Latency: l.Latency, CostUSD: l.CostUSD,
		}
		var err error
		o.Scores, err = decodeScores(appendScores(nil, w, l.Scores), w)
		noError(t, err)
		o.Usage, err = decodeTokens(l.tokens)
		noError(t, err)
		noError(t, decodeDetail(l.body, l.large, &o, Full))
		written = outcomeLine{kindOutcome, o}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	noError(t, encoder.Encode(written))
	return text.Bytes()
}

func storedLines(t *testing.T, lines []importable) []byte {
	t.Helper()
	var text []byte
	for _, line := range lines {
		text = append(text, storedLine(t, line)...)
	}
	return text
}

// tinyExports are short exports with lines of all kinds. Fuzzing starts with short ones, because it
// minimizes interesting inputs, which took all of the time with the six kilobytes of smallRun.
func tinyExports() []string {
	return []string{
		`{"kind":"header","format":1,"run_uid":"a"}
{"kind":"footer","items":0,"outcomes":0}`,
		`{"kind":"header","format":1,"run_uid":"a"}
{"kind":"experiment","trial":1,"id":"e"}
{"kind":"item","id":"i","seq":1,"hash":"h","input":[1.50],"sourceTraceId":"t"}
{"kind":"outcome","item":"i","trial":1,"attempt":1,"started":"2026-11-21T12:00:00Z","latency_ns":5,"scores":[{"name":"f1","value":0.5,"ratio":{"num":1,"den":2},"comment":"1/2"}],"output":{}}
{"kind":"footer","items":1,"outcomes":1,"status":"complete"}`,
		`{"kind":"header","format":1,"run_uid":"a"}
{"kind":"item","id":"i","seq":1,"hash":"h","expectedOutput":"<"}
{"kind":"outcome","item":"i","trial":1,"attempt":1,"class":"timeout","failure":{"class":"timeout"},"scores":[{"name":"f1","value":null,"reason":"r"}]}
{"kind":"outcome","item":"i","trial":1,"attempt":2,"usage":{"input":3},"cost_usd":1e-7,"scores":null}
{"kind":"footer","items":1,"outcomes":2}`,
	}
}

// FuzzExportLines parses any bytes as an export, without a run file. Parsed lines that are written
// again must parse again and be written the same.
func FuzzExportLines(f *testing.F) {
	for _, text := range tinyExports() {
		f.Add([]byte(text))
	}
	f.Add([]byte(tinyExports()[0] + "\n0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, whole := parseAll(text)
		written := storedLines(t, lines)
		reparsed, reparsedWhole := parseAll(written)
		if len(lines) > 0 {
			_, ended := lines[len(lines)-1].(footerLine)
			whole = whole || ended // lines after the footer are not written
		}
		if len(reparsed) != len(lines) || reparsedWhole != whole {
			t.Fatalf("%d lines were taken (whole: %v), and %d (whole: %v) when they were written:\n%s", len(lines), whole, len(reparsed), reparsedWhole, written)
		}
		if diff := cmp.Diff(string(written), string(storedLines(t, reparsed))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestImport_tinyExports: the seeds of the fuzz targets can be imported; otherwise those would test
// nothing.
func TestImport_tinyExports(t *testing.T) {
	for _, text := range tinyExports() {
		path := filepath.Join(t.TempDir(), "x.run")
		noError(t, Import(t.Context(), strings.NewReader(text), "", path))
	}
}

// FuzzImport imports exports that the parser accepts. An imported run must be the same after
// another export and import.
func FuzzImport(f *testing.F) {
	for _, text := range tinyExports() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, whole := parseAll(text); !whole {
			return // FuzzExportLines tests those faster
		}
		folder := memoryFolder(t)
		first, second := filepath.Join(folder, "1.run"), filepath.Join(folder, "2.run")
		if Import(t.Context(), bytes.NewReader(text), "", first) != nil {
			return
		}
		one := mustLoad(t, first)
		exported := export(t, one)
		noError(t, Import(t.Context(), strings.NewReader(exported), "", second))
		two := mustLoad(t, second)
		if diff := cmp.Diff(exported, export(t, two)); diff != "" {
			t.Error(diff)
		}
	})
}

// memoryFolder returns a folder in memory if the system has one. An import with its syncs takes
// 27 ms on a disk and 4 ms in memory.
func memoryFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "runstore-fuzz-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { noError(t, os.RemoveAll(folder)) })
	return folder
}
