package provider

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/extraction"
)

// developmentData is a file outside of the project. Tests and benchmarks that need it skip if it is
// missing.
const developmentData = "../../../shared/data/documents60.jsonl"

func BenchmarkExtract_documents60(b *testing.B) {
	docs := developmentDocuments(b)
	extractor := newExtractor(b)
	for b.Loop() {
		for _, doc := range docs {
			if _, _, err := extractor.Extract(context.Background(), doc); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// developmentDocuments returns the documents of developmentData.
func developmentDocuments(tb testing.TB) []extraction.Document {
	f, err := os.Open(developmentData)
	if err != nil {
		tb.Skip("no development data here:", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	var docs []extraction.Document
	for lines.Scan() {
		var item struct {
			Input json.RawMessage `json:"input"`
		}
		if err := json.Unmarshal(lines.Bytes(), &item); err != nil {
			tb.Fatal(err)
		}
		doc, _, err := extraction.DecodeDocument(item.Input)
		if err != nil {
			tb.Fatal(err)
		}
		docs = append(docs, doc)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	return docs
}

// largeTexts returns texts of about size bytes: prose, and texts that could make a rule slow.
func largeTexts(size int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return map[string]string{
		"prose":        fill(prose),
		"chinese":      fill("2021年3月4日，阿里巴巴集团创始人马云在杭州市宣布收购北京大学的科技公司。"),
		"arabic":       fill("أعلنت شركة أرامكو السعودية في مدينة الرياض أن السيد محمد العلي عين مديرا. "),
		"one word":     fill("a"),
		"hyphens":      fill("Aa-"),
		"capitals":     fill("Ab Cd "),
		"apostrophes":  fill("d'"),
		"dots":         fill("A."),
		"digits":       fill("1-"),
		"quotes":       fill("\"A "),
		"brackets":     fill("(Ann "),
		"cues":         fill("Ann founded "),
		"at signs":     fill("a@"),
		"han":          fill("王公司"),
		"invalid":      fill("\xff\xfeA"),
		"only spaces":  fill(" \n"),
		"no full stop": fill("the Bank of the City of the North and "),
	}
}

func BenchmarkExtract_10MB(b *testing.B) {
	extractor := newExtractor(b)
	texts := largeTexts(10 << 20)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			doc := generalDocument(text)
			for b.Loop() {
				if _, _, err := extractor.Extract(context.Background(), doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
