package baseline

import "strings"

// calendarHan takes 2021年3月4日 and its shorter forms, before other rules see
// the numbers.
func (b *reading) calendarHan(p *page) {
	for i := 0; i+1 < len(p.toks); i++ {
		if !p.free(i) || p.toks[i].kind != digit {
			continue
		}
		last, end := i, 0
		for j := i; j+1 < len(p.toks) && p.toks[j].kind == digit && p.toks[j+1].kind == han && p.free(j) && p.free(j+1); j += 2 {
			sign := calendarSign(p.toks[j+1].text)
			if sign == "" {
				break
			}
			last, end = j+1, p.toks[j+1].start+len(sign)
			if sign != p.toks[j+1].text {
				break
			}
		}
		if end == 0 {
			continue
		}
		run := p.toks[last].text
		whole := end == p.toks[last].end()
		p.part(i, last, p.toks[i].start, end, ruleDate, evidence{date: 3})
		if !whole && len(run) > 0 {
			// The rest of the run behind 日 is still to be read.
			p.used[last] = false
		}
		i = last
	}
}

// calendarSign returns the sign of the calendar that a run begins with.
func calendarSign(run string) string {
	for _, sign := range []string{"年", "月", "日", "号", "世纪"} {
		if strings.HasPrefix(run, sign) {
			return sign
		}
	}
	return ""
}
