package bench

// Report is what a run comes to. Rates are in [0,1] and 1 where there is nothing
// to count.
type Report struct {
	Run    string `json:"run"`
	Mode   string `json:"mode"`
	Model  string `json:"model"`
	Trials int    `json:"trials"`
	// Sources says how many cases were read from where; runs of before have none.
	Sources string `json:"cases"`

	// FailedCalls counts the cases and trials that nobody answered, Failures says
	// why, by class. They are no successes and cover nothing, whatever was
	// expected. Where nobody answered anything, the rates of records and the
	// stability are 0.
	FailedCalls int           `json:"failedCalls"`
	Failures    []FailedCalls `json:"failures"`

	// SchemaValidRate is records of valid shape / records, QuoteInvariantRate
	// records that quote the document / records, over all trials.
	SchemaValidRate    float64      `json:"schemaValidRate"`
	QuoteInvariantRate float64      `json:"quoteInvariantRate"`
	QuoteErrors        map[Code]int `json:"quoteErrors"`
	// UniqueExtractionStability is the mean, over all pairs of trials, of the
	// Jaccard index of their sets of keys (case, class, offsets, quote): shared
	// / all; 1 for two empty sets and for a single trial. Cases count that have
	// an outcome in both.
	UniqueExtractionStability float64  `json:"uniqueExtractionStability"`
	Variance                  Variance `json:"variance"`

	// SuccessRate and CoverageRate are means over the cases and trials; a case
	// without an outcome did not succeed.
	SuccessRate  float64 `json:"successRate"`
	CoverageRate float64 `json:"coverageRate"`
	// SuccessRateStdDev is that of the trials' success rates (of a population).
	SuccessRateStdDev float64 `json:"successRateStdDev"`
	// CaseOutcomeDriftRate is the share of cases that did not come to the same
	// in every trial that has them: kind of emptiness, failure, and set of keys.
	CaseOutcomeDriftRate float64  `json:"caseOutcomeDriftRate"`
	DriftingCases        []string `json:"driftingCases"`

	Breadth    Breadth    `json:"breadth"`
	Categories []Category `json:"categories"`
	// Causes are the records and cases that lowered a rate, the first hundred in
	// the order of case, cause and trial; MoreCauses counts the others.
	Causes     []Cause  `json:"causes"`
	MoreCauses int      `json:"moreCauses"`
	Warnings   []string `json:"warnings"`

	answered int // calls; where there are none, there is nothing to measure
}

// Variance describes the numbers of extractions of the trials.
type Variance struct {
	RunCount         int     `json:"runCount"`
	ExtractionCounts []int   `json:"extractionCounts"`
	Min              int     `json:"min"`
	Max              int     `json:"max"`
	Mean             float64 `json:"mean"`
	// Stability is Min / Max, 1 where nothing was extracted at all.
	Stability float64 `json:"stability"`
	// Variance and StdDev are those of a population.
	Variance float64 `json:"extractionCountVariance"`
	StdDev   float64 `json:"extractionCountStdDev"`
}

// Breadth says how much was looked at.
type Breadth struct {
	TotalCaseCount          int `json:"totalCaseCount"`
	SmokeCaseCount          int `json:"smokeCaseCount"`
	RegressionCaseCount     int `json:"regressionCaseCount"`
	RegressionCategoryCount int `json:"regressionCategoryCount"`
}

// Category is what the cases of one category come to, over all trials.
type Category struct {
	Name               string  `json:"category"`
	Cases              int     `json:"cases"`
	Extractions        int     `json:"extractions"`
	SuccessRate        float64 `json:"successRate"`
	SchemaValidRate    float64 `json:"schemaValidRate"`
	QuoteInvariantRate float64 `json:"quoteInvariantRate"`
	CoverageRate       float64 `json:"coverageRate"`
}

// Cause is a reason why a rate is below 1.
type Cause struct {
	CaseID string `json:"caseId"`
	Trial  int    `json:"trial"`
	Metric string `json:"metric"`
	// Code, Class and Quote say which record it was, where it was one.
	Code   Code   `json:"code,omitempty"`
	Class  string `json:"class,omitempty"`
	Quote  string `json:"quote,omitempty"`
	Detail string `json:"detail"`
}
