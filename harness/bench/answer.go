package bench

// Answer is what one trial made of a case: the output of the task.
type Answer struct {
	Records  []Record  `json:"extractions"`
	Failures []Failure `json:"failures"`
	Kind     string    `json:"empty_result_kind"`
	// Passes says how many stored answers were used: 2 after a repair.
	Passes int `json:"passes"`
}

func newAnswer(records []Record, passes int, failures ...Failure) Answer {
	a := Answer{Records: records, Failures: append([]Failure{}, failures...), Kind: NonEmpty, Passes: passes}
	if a.Records == nil {
		a.Records = []Record{}
	}
	switch {
	case len(records) == 0 && len(failures) > 0:
		a.Kind = EmptyByFailure
	case len(records) == 0:
		a.Kind = EmptyByEvidence
	}
	return a
}

func (r reader) plain(text string, passes int) Answer {
	records, failure := r.records(text)
	if failure != nil {
		return newAnswer(nil, passes, *failure)
	}
	return newAnswer(records, passes)
}
