package baseline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// hanOrg and hanPlace are endings of Chinese and Japanese names, longest first
// where one ends in another.
const (
	hanOrg = `股份有限公司 有限责任公司 有限公司 株式会社 公司 集团 集團 大学 大學 学院 學院 银行 銀行 医院 醫院 研究所 研究院 委员会 委員會
实验室 基金会 协会 协会 联盟 出版社 电视台 报社 法院 检察院 公安局 管理局 事务所 俱乐部 政府 中学 小学 科技 部门 工厂 航空 证券 保险`
	hanPlace  = `自治区 自治州 开发区 特别行政区 省 市 县 縣 区 區 州 镇 村 府 岛 島 河 江 湖 山 海 路 街 机场 车站 港`
	hanTitles = `先生 女士 教授 博士 总裁 总经理 经理 董事长 主席 总统 总理 部长 市长 院长 校长 记者 医生 律师 老师 主任 书记 局长 首席执行官 さん 氏`
	hanLaw    = `法 条例 协议 合同 条约 公约 规定`
	hanEvent  = `会议 大会 战争 事件 奥运会 世界杯 论坛 展览会 峰会`
	// hanCuts are function words between which names stand.
	hanCuts = `位于 来自 毕业于 就职于 任职于 成立于 创立于 出生于 生于 担任 出任 加入 收购 宣布 表示 创办 创立 成立 创始人 创建 首席执行官 总部设在 总部位于 总部
董事长 总经理 总裁 主席 经理 教授 博士 先生 女士 嫁给 娶了 妻子 丈夫 儿子 女儿 父亲 母亲 现任 前任 曾任 以及 还有 其中 包括 由于 因为 所以 但是 如果 虽然 以后 之后 之前 目前
参加 参与 合作 签署 投资 旗下 子公司 拥有 隶属 属于 发布 推出 工作 学习 毕业 出生 去世 结婚 今天 昨天 公司 召开 举行
在 的 是 和 与 於 于 由 了 从 到 对 为 将 被 向 及 以 该 这 那 他 她 它 我 你 们 也 都 就 并 而 或 把 让 给 跟 至 约 年 月 日 曾 已 又 有 说 称 は が を に で と の も へ から まで`
	hanSurnames = `王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许邓冯韩曹曾彭萧蔡潘田董袁于余叶蒋杜苏魏程吕丁沈任姚卢傅钟姜崔谭廖范汪陆金石戴贾韦夏邱方侯邹熊孟秦白江阎薛尹段雷黎史龙陶贺顾毛郝龚邵万钱严武戚莫孔向汤`
)

// hanRules are the lists above, ready for use.
type hanRules struct {
	endings []hanEnding
	titles  []string
	cuts    map[rune][]string // by first sign
}

type hanEnding struct {
	text string
	kind kind
}

func newHanRules() hanRules {
	var h hanRules
	for _, list := range []struct {
		words string
		kind  kind
	}{{hanOrg, org}, {hanPlace, place}, {hanLaw, law}, {hanEvent, event}} {
		for _, w := range strings.Fields(list.words) {
			h.endings = append(h.endings, hanEnding{w, list.kind})
		}
	}
	h.titles = strings.Fields(hanTitles)
	h.cuts = map[rune][]string{}
	for _, c := range strings.Fields(hanCuts) {
		first, _ := utf8.DecodeRuneInString(c)
		h.cuts[first] = append(h.cuts[first], c)
	}
	return h
}

// unspaced takes names out of runs of Han, kana and Thai, which have neither
// spaces nor capitals: the run is cut at function words, and a piece is a name
// by its ending, by a title behind it, by a surname, or as a known place.
func (b *reading) unspaced(p *page) {
	for i, t := range p.toks {
		if t.kind != han || p.used[i] {
			continue
		}
		if b.transliterated(p, i) {
			continue
		}
		b.hanRun(p, i, t.text, b.hanAmount(p, i))
	}
}

// transliterated takes "埃隆·马斯克": runs joined by a middle dot.
func (b *reading) transliterated(p *page, i int) bool {
	if i+2 >= len(p.toks) || p.toks[i+2].kind != han || !strings.Contains("·・•", p.toks[i+1].text) || p.toks[i+1].kind != mark {
		return false
	}
	first := p.toks[i].text
	start := p.toks[i].start + b.lastCut(first)
	after := p.toks[i+2].text
	end := p.toks[i+2].start + min(b.firstCut(after), runePrefix(after, 5))
	if end <= p.toks[i+2].start || start >= p.toks[i].end() {
		return false
	}
	if !p.part(i, i+2, start, end, ruleHan, evidence{person: 3}) {
		return false
	}
	b.hanRun(p, i, first[:start-p.toks[i].start], 0)
	b.hanRun(p, i+2, after, end-p.toks[i+2].start)
	return true
}

// hanRun cuts one run from byte start on and judges its pieces.
func (b *reading) hanRun(p *page, i int, run string, start int) {
	for start < len(run) {
		n := b.cutAt(run[start:])
		if n > 0 {
			start += n
			continue
		}
		end := start + b.firstCut(run[start:])
		end = max(end, b.ending(run, start, end))
		piece := run[start:end]
		if !b.hanPiece(p, i, start, piece, run[end:], run[:start]) {
			b.hanInside(p, i, start, piece)
		}
		start = end
	}
}

// cutAt returns the length of the function word that s begins with.
func (b *reading) cutAt(s string) int {
	first, _ := utf8.DecodeRuneInString(s)
	for _, c := range b.han.cuts[first] {
		if strings.HasPrefix(s, c) {
			return len(c)
		}
	}
	return 0
}

// firstCut returns where the first function word in s begins; len(s) for none.
func (b *reading) firstCut(s string) int {
	for i := range s {
		if i > 0 && b.cutAt(s[i:]) > 0 {
			return i
		}
		if i > 60 {
			return i
		}
	}
	return len(s)
}

// lastCut returns where the text behind the last function word begins.
func (b *reading) lastCut(s string) int {
	last := 0
	for i := range s {
		if n := b.cutAt(s[i:]); n > 0 {
			last = i + n
		}
	}
	return last
}

// ending extends a piece over an ending that begins with a function word
// ("有限公司" contains "有").
func (b *reading) ending(run string, start, end int) int {
	for _, e := range b.han.endings {
		if e.kind == org && strings.HasPrefix(run[end:], e.text) {
			return end + len(e.text)
		}
	}
	return end
}

// hanPiece takes a piece that is a name as a whole.
func (b *reading) hanPiece(p *page, i, start int, piece, after, before string) bool {
	n := utf8.RuneCountInString(piece)
	offset := p.toks[i].start + start
	take := func(ev evidence) bool { return p.part(i, i, offset, offset+len(piece), ruleHan, ev) }
	switch {
	case n < 2 || n > 20:
		return false
	case b.lex.countries[piece]:
		return take(evidence{country: 4})
	case b.lex.cities[piece] || b.lex.continents[piece]:
		return take(evidence{place: 3})
	}
	for _, e := range b.han.endings {
		if strings.HasSuffix(piece, e.text) && n > utf8.RuneCountInString(e.text) && (n > 2 || e.kind == place) {
			var ev evidence
			ev[e.kind] = 3
			return take(ev)
		}
	}
	if n <= 4 && katakana(piece) {
		return take(evidence{thing: 0.8, person: 0.5, place: 0.5, org: 0.5})
	}
	first, _ := utf8.DecodeRuneInString(piece)
	surname := strings.ContainsRune(hanSurnames, first)
	if n <= 4 && b.titled(after, before) {
		return take(evidence{person: 3})
	}
	if surname && n <= 3 && unicode.Is(unicode.Han, first) && personAfter(after) {
		return take(evidence{person: 2})
	}
	return false
}

// titled reports a title right behind or right before a piece.
func (b *reading) titled(after, before string) bool {
	for _, t := range b.han.titles {
		if strings.HasPrefix(after, t) || strings.HasSuffix(before, t) {
			return true
		}
	}
	return strings.HasSuffix(before, "创始人") || strings.HasSuffix(before, "妻子") || strings.HasSuffix(before, "丈夫")
}

// personAfter reports verbs and particles that follow a person's name, or the
// end of the run.
func personAfter(after string) bool {
	for _, v := range []string{"表示", "说", "称", "出生", "生于", "毕业", "担任", "出任", "加入", "创立", "创办", "在", "是", "于", "和", "与", "曾", "现任", "去世", "的", "宣布", "任"} {
		if strings.HasPrefix(after, v) {
			return true
		}
	}
	return after == ""
}

// hanInside looks for an organisation ("清华大学参加") or a known place
// ("北京举办") at the beginning of a piece.
func (b *reading) hanInside(p *page, i, start int, piece string) {
	for _, e := range b.han.endings {
		if at := strings.Index(piece, e.text); e.kind == org && at > 0 && len(e.text) > 3 && at < 36 {
			p.part(i, i, p.toks[i].start+start, p.toks[i].start+start+at+len(e.text), ruleHan, evidence{org: 3})
			return
		}
	}
	for n := 4; n >= 2; n-- {
		end := runePrefix(piece, n)
		if end == len(piece) || !b.lex.countries[piece[:end]] && !b.lex.cities[piece[:end]] {
			continue
		}
		ev := evidence{place: 3}
		if b.lex.countries[piece[:end]] {
			ev = evidence{country: 4}
		}
		p.part(i, i, p.toks[i].start+start, p.toks[i].start+start+end, ruleHan, ev)
		return
	}
}

// hanAmount takes an amount whose unit is the beginning of the run, 500万元, and
// returns how many bytes of the run it used.
func (b *reading) hanAmount(p *page, i int) int {
	first := i
	for first > 0 && p.toks[first-1].kind == digit && !p.toks[first].space && (p.free(first - 1)) {
		first--
	}
	if first == i {
		return 0
	}
	run := p.toks[i].text
	offset := p.toks[first].start
	for _, unit := range []struct {
		text string
		ev   evidence
	}{
		{"亿美元", evidence{money: 3}}, {"万美元", evidence{money: 3}}, {"亿元", evidence{money: 3}}, {"万元", evidence{money: 3}}, {"美元", evidence{money: 3}},
		{"元", evidence{money: 3}}, {"円", evidence{money: 3}}, {"公里", evidence{quantity: 2}}, {"万人", evidence{quantity: 2}}, {"名", evidence{quantity: 2}}, {"人", evidence{quantity: 2}},
		{"个月", evidence{duration: 3}}, {"小时", evidence{duration: 3}}, {"天", evidence{duration: 2}},
	} {
		if strings.HasPrefix(run, unit.text) {
			p.part(first, i, offset, p.toks[i].start+len(unit.text), ruleNumber, unit.ev)
			return len(unit.text)
		}
	}
	return 0
}

// runePrefix returns the length in bytes of the first n runes of s.
func runePrefix(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func katakana(s string) bool {
	return runLength(s, func(r rune) bool { return unicode.Is(unicode.Katakana, r) || r == 'ー' }) == len(s)
}
