package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/langfuse"
	"extraction-experiment/report/html"
)

// tracePage writes a trace of the embedded Langfuse, which is asked through its
// API as any other.
func tracePage(ctx context.Context, w io.Writer, l *connect.Langfuse, id string) error {
	trace, err := l.Client.GetTrace(ctx, l.Server.Capabilities, id, langfuse.TraceParts{IO: true, Metadata: true})
	if errors.Is(err, langfuse.ErrNotFound) {
		return notFound(fmt.Sprintf("there is no trace %q in the Langfuse of this folder; what was sent to another one is there", id))
	}
	if err != nil {
		return err
	}
	page := html.Trace{ID: trace.ID, Name: trace.Name, Time: trace.Time}
	for _, fact := range [][2]string{{"environment ", trace.Environment}, {"user ", trace.UserID}, {"session ", trace.SessionID}, {"release ", trace.Release}} {
		if fact[1] != "" {
			page.About = append(page.About, fact[0]+fact[1])
		}
	}
	page.About = append(page.About, trace.Tags...)
	names := map[string]string{}
	for _, o := range trace.Observations {
		names[o.ID] = o.Name
		page.Observations = append(page.Observations, shownObservation(o))
	}
	for score, err := range l.Client.ReadScores(ctx, l.Server.Capabilities, langfuse.ScoresQuery{TraceIDs: []string{id}}) {
		if err != nil {
			return err
		}
		page.Scores = append(page.Scores, html.TraceScore{Name: score.Name, Value: valueText(score), Comment: score.Comment, On: names[score.Subject.ID]})
	}
	slices.SortStableFunc(page.Scores, func(a, b html.TraceScore) int { return strings.Compare(a.Name, b.Name) })
	return html.WriteTrace(w, page, "/")
}

func valueText(s langfuse.Score) string {
	if n, ok := s.Value.Number(); ok {
		return strconv.FormatFloat(n, 'g', 6, 64)
	}
	return s.Value.String()
}

func shownObservation(o langfuse.Observation) html.Observation {
	out := html.Observation{ID: o.ID, Parent: o.ParentID, Name: o.Name, Type: strings.ToLower(o.Type), Level: o.Level, Status: o.StatusMessage,
		Model: o.ModelName(), Start: o.StartTime, End: o.EndTime,
		Parameters: jsonText(o.ModelParameters), Input: jsonText(o.Input), Output: jsonText(o.Output), Metadata: jsonText(o.Metadata)}
	if o.PromptName != "" {
		out.Facts = append(out.Facts, fmt.Sprintf("prompt %s@%v", o.PromptName, o.PromptVersion))
	}
	for _, kind := range slices.Sorted(maps.Keys(o.UsageDetails)) {
		out.Facts = append(out.Facts, fmt.Sprintf("%v %s tokens", o.UsageDetails[kind], kind))
	}
	if o.TotalCost > 0 {
		out.Facts = append(out.Facts, fmt.Sprintf("$%v", o.TotalCost))
	}
	return out
}

// jsonText is a text as it is and JSON over several lines; nothing for what is
// empty.
func jsonText(raw json.RawMessage) string {
	var text string
	switch trimmed := bytes.TrimSpace(raw); {
	case len(trimmed) == 0, string(trimmed) == "null", string(trimmed) == "{}", string(trimmed) == `""`:
		return ""
	case json.Unmarshal(trimmed, &text) == nil:
		return text
	}
	var spread bytes.Buffer
	if json.Indent(&spread, raw, "", "  ") != nil {
		return string(raw)
	}
	return spread.String()
}
