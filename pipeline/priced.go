package pipeline

import "context"

// Priced returns a model that fills Response.CostUSD from the usage, by
// Price.Cost. The price is that of the name that the provider answered with,
// which is often more exact, or else that of name, which was asked for.
//
// The cost stays nil where no price is known or no usage was reported; one
// that the response already states is kept. An answer that comes with an error
// is priced too, because it was paid for. Nothing else is changed and nothing
// sent. It is safe for concurrent use if model and prices are.
func Priced(model Model, name string, prices Prices) Model {
	return priced{model: model, name: name, prices: prices}
}

type priced struct {
	model  Model
	name   string
	prices Prices
}

// Generate asks the model and prices what it answers.
func (p priced) Generate(ctx context.Context, req Request) (Response, error) {
	response, err := p.model.Generate(ctx, req)
	if response.CostUSD != nil {
		return response, err
	}
	if price, ok := p.lookup(response.Model); ok {
		response.CostUSD = price.Cost(response.Usage)
	}
	return response, err
}

func (p priced) lookup(answered string) (Price, bool) {
	if answered != "" {
		if price, ok := p.prices(answered); ok {
			return price, true
		}
	}
	return p.prices(p.name)
}
