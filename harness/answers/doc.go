// Package answers is the harness of answer quality over a document: the task
// asks a system a question about a PDF, the scorer looks for the terms that
// the answer must and must not contain, and for the page that it cites.
//
// It is no judge of style or truth: an answer is right when the terms are in
// it. The steps:
//
//  1. Read reads questions from JSONL, each line checked;
//
//  2. a Task gives the question, never its terms, to an Answerer;
//
//  3. a Scorer normalises answer and terms (Normalise) and scores (Judge):
//
//     include_rate = hit groups / groups          (1 without groups)
//     base_score = 0.7·include_rate + 0.3·safe_ok
//     question_score = max(0, base_score − citation_penalty)
//
//  4. the run's weighted_score is Σ question_score·weight / Σ weight, where a
//     question that failed scores 0.
//
// A short example:
//
//	e := answers.Expected{MustInclude: []string{"2023"}}
//	answers.Judge(e, "Выручка за 2023 год (стр. 4)").Score // 1
package answers

// Name is how run files call this harness.
const Name = "answers"

// Version is that of the scoring; it changes when a score's meaning does.
const Version = "answers@1"

// Primary is the score by which questions are called best and worst, and of
// which weighted_score is the weighted mean.
const Primary = "question_score"

// The names of the scores of a question, beside Primary.
const (
	IncludeRate     = "include_rate"
	SafeOK          = "safe_ok"
	BaseScore       = "base_score"
	CitationPenalty = "citation_penalty"
	HasCitation     = "has_citation"
)

// ScoreOrder lists the scores in the order in which they are shown.
func ScoreOrder() []string {
	return []string{Primary, IncludeRate, SafeOK, BaseScore, CitationPenalty, HasCitation}
}
