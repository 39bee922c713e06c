package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// halfWidth95 returns half the width of Student's 95 % interval of a mean,
// t(0.975, n−1)·sd/√n, for n values with sample standard deviation sd.
// Undefined for n < 2 and for an sd that is negative or not finite.
//
// Source: Student 1908; the same interval as in NIST/SEMATECH e-Handbook
// 1.3.5.2.
func halfWidth95(n int, sd float64) (half float64, ok bool) {
	if n < 2 || !(sd >= 0) || math.IsInf(sd, 1) {
		return 0, false
	}
	return studentQuantile(0.975, float64(n-1)) * sd / math.Sqrt(float64(n)), true
}

// studentQuantile returns the value that a Student-t variable of df degrees of
// freedom stays under with probability p. p lies strictly between 0 and 1, df
// above 0; the caller sees to that.
func studentQuantile(p, df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}
