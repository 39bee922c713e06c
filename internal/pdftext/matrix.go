package pdftext

import "math"

// matrix is an affine map: x' = a·x + c·y + e, y' = b·x + d·y + f.
type matrix [6]float64

var unit = matrix{1, 0, 0, 1, 0, 0}

// times returns the map that does m first and then n.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func (m matrix) apply(x, y float64) (float64, float64) {
	return m[0]*x + m[2]*y + m[4], m[1]*x + m[3]*y + m[5]
}

// finite reports whether nothing overflowed.
func (m matrix) finite() bool {
	for _, v := range m {
		if !(math.Abs(v) < 1e9) {
			return false
		}
	}
	return true
}

// turned returns the map that shows a page as it is to be looked at: with its
// corner at the origin, turned clockwise by 0, 90, 180 or 270 degrees.
func turned(box [4]float64, degrees int) matrix {
	m := matrix{1, 0, 0, 1, -box[0], -box[1]}
	width, height := box[2]-box[0], box[3]-box[1]
	switch degrees {
	case 90:
		return m.times(matrix{0, -1, 1, 0, 0, width})
	case 180:
		return m.times(matrix{-1, 0, 0, -1, width, height})
	case 270:
		return m.times(matrix{0, 1, -1, 0, height, 0})
	}
	return m
}
