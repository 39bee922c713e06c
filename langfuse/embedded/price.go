package embedded

import (
	"database/sql"
	"regexp"
	"strings"
)

// priceList holds the models of a store with their patterns ready.
type priceList []pricedModel

type pricedModel struct {
	model
	matches *regexp.Regexp
}

// readPrices returns the models, the latest start first, so that the first that
// fits is the one that counts.
func readPrices(tx *transaction) (priceList, error) {
	models, err := collect(tx, scanModel, "SELECT "+modelColumns+" FROM models ORDER BY coalesce(start, 0) DESC, created DESC, id")
	if err != nil {
		return nil, err
	}
	var list priceList
	for _, m := range models {
		if matches, err := regexp.Compile(m.pattern); err == nil { // it was checked when it was stored
			list = append(list, pricedModel{m, matches})
		}
	}
	return list, nil
}

// price computes the cost of an observation that names a model and its usage
// and brings no cost of its own: each bucket of usage times its price. A bucket
// such as input_cached_tokens has no price here.
func (l priceList) price(o *observation) {
	if o.cost != "" || o.model == "" || o.usage == "" {
		return
	}
	for _, m := range l {
		if !m.matches.MatchString(o.model) || (m.start.Valid && m.start.Int64 > o.start) {
			continue
		}
		cost := map[string]float64{}
		for kind, units := range detailsOf(o.usage) {
			if price, known := m.prices[strings.ToLower(kind)]; known {
				cost[kind] = units * price
			}
		}
		if len(cost) == 0 { // not free: its price is not known
			return
		}
		cost = withTotal(cost)
		o.cost, o.totalCost = asText(cost), sql.NullFloat64{Float64: cost["total"], Valid: true}
		return
	}
}
