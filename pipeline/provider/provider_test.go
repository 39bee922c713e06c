package provider_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/pipeline/provider"
)

func TestOpen_baseline(t *testing.T) {
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	for _, spec := range []string{"baseline", " Baseline ", "BASELINE"} {
		extractor, info, err := provider.Open(spec, provider.Config{Now: func() time.Time { return at }})
		if err != nil {
			t.Fatalf("%q: %v", spec, err)
		}
		if info.Provider != "baseline" || info.Model != "baseline" || !strings.HasPrefix(info.Pipeline, "baseline@") {
			t.Errorf("%q: %+v", spec, info)
		}
		_, calls, err := extractor.Extract(context.Background(), extraction.Document{Text: "Ann"})
		if err != nil || len(calls) != 1 || !calls[0].Started.Equal(at) || !calls[0].Ended.Equal(at) {
			t.Errorf("%q: the clock was not passed on: %v %v", spec, calls, err)
		}
	}
}

func TestOpen_unknown(t *testing.T) {
	for spec, nearest := range map[string]string{
		"basline": "baseline", "baseline/": "baseline", "baseline/x": "baseline",
		"": "", "gpt-9": "", "/": "", strings.Repeat("日", 5000): "", "\xff": "",
	} {
		extractor, _, err := provider.Open(spec, provider.Config{})
		var unknown *provider.UnknownError
		if extractor != nil || !errors.As(err, &unknown) {
			t.Fatalf("%.20q: got %v, %v", spec, extractor, err)
		}
		if unknown.ExitCode() != 64 || unknown.Nearest != nearest || !slices.Contains(unknown.Known, "baseline") {
			t.Errorf("%.20q: %+v", spec, unknown)
		}
		if message := err.Error(); len(message) > 400 || strings.Contains(message, "did you mean") != (nearest != "") || !strings.Contains(message, "there are: baseline") {
			t.Errorf("%.20q: message %q", spec, message)
		}
	}
}

func TestList(t *testing.T) {
	if got := provider.List(); len(got) != 1 || got[0] != "baseline: rules without a model, the floor to beat" {
		t.Errorf("got %q", got)
	}
}
