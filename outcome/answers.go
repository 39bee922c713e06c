package outcome

// Answers is the summary of a run that answered questions about a document: its
// keys stand in the summary itself.
type Answers struct {
	// WeightedScore is the WeightedMean of the primary score; nil is undefined:
	// no question, or weights that sum up to 0.
	WeightedScore   *float64 `json:"weighted_score"`
	PDFSHA256       string   `json:"pdf_sha256"`
	QuestionsSHA256 string   `json:"questions_sha256"`
}

// The keys of a run's metadata that identify document and questions.
const (
	PDFSHA256       = "pdf_sha256"
	QuestionsSHA256 = "questions_sha256"
)

// answers returns nil for a run that names no document.
func (s *Summariser) answers(scores Stats) *Answers {
	pdf, ok := s.header.Metadata[PDFSHA256]
	if !ok {
		return nil
	}
	primary, _ := scores.Lookup(s.header.Scorer.Primary)
	return &Answers{primary.WeightedMean, pdf, s.header.Metadata[QuestionsSHA256]}
}
