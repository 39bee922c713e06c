package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// studentQuantile returns the value that a Student-t variable of df degrees of
// freedom stays under with probability p. p lies from 1/2 to 1, which is excluded,
// df above 0; the caller sees to that.
//
// Source: Student 1908; by the incomplete beta function as in Abramowitz and
// Stegun 26.5.27.
func studentQuantile(p, df float64) float64 {
	x := mathext.InvRegIncBeta(df/2, 0.5, 2*(1-p))
	return math.Sqrt(df * (1 - x) / x)
}
