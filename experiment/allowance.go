package experiment

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Allowance is how many items may fail before a finished run counts as bad:
// an absolute number, or a share of the planned items.
type Allowance struct {
	Number  int
	Percent float64
	IsShare bool
}

// ParseAllowance reads "3" or "5%" (also "2.5%").
func ParseAllowance(text string) (Allowance, error) {
	text = strings.TrimSpace(text)
	if share, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return Allowance{}, fmt.Errorf("%q is no share of failed items: write a number from 0%% to 100%%", text)
		}
		return Allowance{Percent: p, IsShare: true}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return Allowance{}, fmt.Errorf("%q is no number of failed items: write one such as 3, or a share such as 5%%", text)
	}
	return Allowance{Number: n}, nil
}

// Exceeded reports whether failed items are more than allowed of those
// planned. Exactly the allowed number is not exceeded.
func (a Allowance) Exceeded(failed, planned int) bool {
	if !a.IsShare {
		return failed > a.Number
	}
	// In decimals, as it was written: 0.57*10000 is less than 5700 in float64.
	share, ok := new(big.Rat).SetString(strconv.FormatFloat(a.Percent, 'g', -1, 64))
	if !ok { // a Percent that nobody parsed, and that is no number
		return failed > 0
	}
	allowed := share.Mul(share, new(big.Rat).SetFrac64(int64(planned), 100))
	return new(big.Rat).SetInt64(int64(failed)).Cmp(allowed) > 0
}

// String returns the form that ParseAllowance reads.
func (a Allowance) String() string {
	if a.IsShare {
		return strconv.FormatFloat(a.Percent, 'g', -1, 64) + "%"
	}
	return strconv.Itoa(a.Number)
}
