package pipeline

import "extraction-experiment/outcome"

// Price is what a model costs, in USD per million tokens. A zero is a price
// too: the model is free.
type Price struct {
	Input float64
	// CachedInput is the price of input tokens that were read from a cache;
	// the same as Input where there is no discount.
	CachedInput float64
	Output      float64
	// MaxInput is the number of input tokens up to which a request has this
	// price; for a longer one the cost is unknown. 0: there is no such border.
	MaxInput int64
}

// Prices looks up what a model costs by its name; false means not known.
type Prices func(model string) (Price, bool)

// Cost returns what a call cost in USD, or nil where that cannot be known:
//
//	((input − cached) × Input + cached × CachedInput + output × Output) / 1,000,000
//
// Cached tokens are part of the input and reasoning tokens part of the output,
// so neither is added again. Nil, never 0, is the cost of a usage without
// input tokens (none was reported: no call goes without input), of one that
// contradicts itself (a negative count, more cached than input), and of a
// request above MaxInput.
func (p Price) Cost(u outcome.Usage) *float64 {
	if u.Input <= 0 || u.Output < 0 || u.Cached < 0 || u.Cached > u.Input {
		return nil
	}
	if p.MaxInput > 0 && u.Input > p.MaxInput {
		return nil
	}
	const million = 1e6
	cost := (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*p.CachedInput + float64(u.Output)*p.Output) / million
	return &cost
}
