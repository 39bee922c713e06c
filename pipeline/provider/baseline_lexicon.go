package provider

import (
	_ "embed"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// lexicon holds the words and patterns of the rules. None was made from expected output.
type lexicon struct {
	schemaKinds   map[string]kind // words in schemas
	nameKinds     map[string]kind // words in names
	patterns      []pattern
	tokenPatterns []pattern // patterns at a number or one of months
	months        map[string]bool
	cues          []cueGroup

	stopWords, connectors, germanArticles, places, companies, agents, pronouns, titles map[string]bool
}

// cueGroup holds beginnings of words that indicate the same relationship, and those that
// indicate it in the opposite direction.
type cueGroup struct{ same, opposite []string }

// pattern finds the mentions of a kind. Its group, if there is one, is the name.
type pattern struct {
	kind kind
	re   *regexp.Regexp
	hint string // the text must have one of these characters
}

// evidenceOf returns the evidence of a word in a name.
func (l *lexicon) evidenceOf(word string) (ev evidence) {
	if k := l.nameKinds[word]; k > 0 {
		ev[k] = 3
	}
	return ev
}

const (
	months = `January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|` +
		`Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember|janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre|` +
		`января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря|` +
		`يناير|فبراير|مارس|أبريل|مايو|يونيو|يوليو|أغسطس|سبتمبر|أكتوبر|نوفمبر|ديسمبر`
	han    = `[^\P{Han}的在和与是了为由向对从到及于将并被有也其这那]`
	arabic = `\p{Arabic}+(?: ال\p{Arabic}+)?`
	amount = `\d(?:[\d.,\x{a0} ]*\d)?`
	scale  = `(?:million|billion|thousand|Millionen|Milliarden|Mio\.?|Mrd\.?|millions?|milliards?|млн|млрд|тысяч|миллионов|миллиона|مليون|مليار|bn|[mMk])`
	coins  = `dollars?|euros?|Euro|pounds?|francs?|kronor|yen|USD|EUR|GBP|CHF|рублей|рубля|руб\.|долларов|евро|دولار|ريال|درهم|يورو`
)

// newPatterns returns the patterns to search if one of their characters occurs, and those that
// begin with a number, a month or a currency.
func newPatterns() (anywhere, tokenPatterns []pattern) {
	re := regexp.MustCompile
	anywhere = []pattern{
		{kind: code, re: re(`[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?://[^\s<>"]+[\w/]`), hint: "@/"},
		{kind: code, re: re(`[A-Z]{2,}[A-Z\d]*-[A-Z\d]*\d[\w-]*`), hint: "-"},
		{kind: org, re: re(`(?:ООО|ПАО|АО|ОАО|ЗАО) «[^»\n]+»`), hint: "«"},
		{kind: org, re: re(han + `{2,10}?(?:股份有限公司|有限公司|公司|集团|大学|银行|研究院|研究所|学院|医院|协会|委员会|基金会|资本|科技|法院)`), hint: "司团学行院所会本技"},
		{kind: person, re: re(`(` + han + `{2,4}?)(?:先生|女士|博士|教授)`), hint: "先女博教"},
		{kind: place, re: re(han + `{2,5}?[市省县镇港]`), hint: "市省县镇港"},
		{kind: org, re: re(`(?:شركة|جامعة|وزارة|مؤسسة|هيئة|بنك|مجموعة|منظمة|معهد) ` + arabic), hint: "ةكد"},
		{kind: person, re: re(`(?:السيدة?|الدكتورة?|المهندسة?|الأستاذة?) (` + arabic + `)`), hint: "سدذ"},
		{kind: place, re: re(`(?:مدينة|محافظة|منطقة) (` + arabic + `)`), hint: "ة"},
		{kind: person, re: re(han + `{1,5}(?:·` + han + `{1,5})+`), hint: "·"},
		{kind: person, re: re(`([王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗]\p{Han}{1,2}?)(?:毕业|出生|担任|表示|创立|宣布|说)`), hint: "毕出担表创宣说"},
		{kind: work, re: re(`["“„«]([\p{Lu}\d][^"“”„«»\n]{1,80})["”»“]`), hint: "\"“„«"},
		{kind: work, re: re(`《([^》\n]{1,40})》`), hint: "《"},
		{kind: role, re: re(`首席执行官|总经理|董事长|总裁|الرئيس التنفيذي|المدير العام`), hint: "官理长裁ئد"},
		{kind: role, re: re(`(?i)(?:(?:chief|managing|deputy|vice|senior|executive|general|head) ){0,2}(?:(?:executive|financial|operating|technology) officer|director|chair(?:man|woman)?|president|secretary|treasurer|CEO|CFO|CTO|Geschäftsführer(?:in)?|директор)`)},
	}
	const months = `(?:` + months + `)`
	tokenPatterns = []pattern{
		{kind: date, re: re(`^(?:\d{4}年(?:\d{1,2}月)?(?:\d{1,2}日)?|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4}|Q[1-4] \d{4})`)},
		{kind: date, re: re(`^\d{1,2}(?:st|nd|rd|th|er)?\.? (?:of |de )?` + months + `(?:,? \d{4})?(?: года)?`)},
		{kind: date, re: re(`^` + months + `\.? (?:\d{4}|\d{1,2}(?:st|nd|rd|th)?(?:, ?\d{4})?)`)},
		{kind: money, re: re(`^(?:US\$|[$€£¥₽]|(?:USD|EUR|GBP|CHF) ?)` + amount + `(?: ?` + scale + `)?`)},
		{kind: money, re: re(`^` + amount + ` ?(?:` + scale + ` )?(?:d'|de )?(?:` + coins + `|€)|^\d[\d.,]*[万亿千]*(?:美元|欧元|人民币|元)`)},
		{kind: percent, re: re(`^` + amount + ` ?(?:%|percent|per cent|Prozent|процентов|pour cent)`)},
		{kind: quantity, re: re(`^` + amount + ` ?(?:km|kg|cm|mm|MW|kW|GB|tonnes|metres|meters|miles|hours|hectares|days|years)`)},
		{kind: date, re: re(`^(?:1[5-9]|20)\d\d(?: года| г\.)?`)},
	}
	return anywhere, tokenPatterns
}

//go:embed baseline_words.txt
var baselineWords string

func newLexicon() *lexicon {
	l := &lexicon{}
	words := map[string]string{} // by name of the list
	for line := range strings.Lines(baselineWords) {
		list, text, _ := strings.Cut(line, ": ")
		if list != "cues" {
			words[list] += text + " "
			continue
		}
		forward, backward, _ := strings.Cut(text, "|")
		group, opposite := strings.Fields(forward), strings.Fields(backward)
		if l.cues = append(l.cues, cueGroup{group, opposite}); opposite != nil {
			l.cues = append(l.cues, cueGroup{opposite, group})
		}
	}
	l.patterns, l.tokenPatterns = newPatterns()
	l.months = textutil.WordSet(strings.ToLower(strings.ReplaceAll(months, "|", " ")) +
		` q1 q2 q3 q4 us us$ usd eur gbp chf $ € £ ¥ ₽`)
	set := func(list string) map[string]bool { return textutil.WordSet(words[list]) }
	l.stopWords, l.connectors, l.germanArticles = set("stops"), set("connectors"), set("germanArticles")
	l.places, l.companies, l.agents = set("places"), set("companies"), set("agents")
	l.pronouns, l.titles = set("pronouns"), set("titles")
	l.nameKinds, l.schemaKinds = map[string]kind{}, map[string]kind{}
	for k := person; k < numKinds; k++ {
		for w := range strings.FieldsSeq(words["name "+kindNames[k]]) {
			l.nameKinds[w] = k
		}
		for w := range strings.FieldsSeq(words["schema "+kindNames[k]]) {
			l.schemaKinds[w] = k
		}
	}
	return l
}

// kind is a category of the rules; types of a schema accept kinds.
type kind uint8

const (
	person kind = 1 + iota
	org
	place
	date
	money
	percent
	quantity
	work
	code
	role
	thing // any other named thing
	numKinds
)

// kindNames are the names of the kinds in the lists of words.
var kindNames = [numKinds]string{"", "person", "org", "place", "date", "money", "percent", "quantity", "work", "code", "role", "thing"}

// evidence is the weight for each kind.
type evidence [numKinds]float32

func (e *evidence) add(other evidence) {
	for k, v := range other {
		e[k] += v
	}
}

// entityType is an entity type of the schema.
type entityType struct {
	name      string
	nameWords []string // words of the name
	weights   evidence // weight of each kind
}

// readTypes makes the allowed types of a schema, in order of their names.
func (d *document) readTypes(doc extraction.Document) {
	names := slices.Sorted(maps.Keys(doc.Objects))
	if len(names) == 0 {
		names = slices.Sorted(slices.Values(doc.AllowedTypes))
	}
	for _, name := range slices.Compact(names) {
		if len(doc.AllowedTypes) > 0 && !slices.Contains(doc.AllowedTypes, name) {
			continue
		}
		t := entityType{name: name, nameWords: splitWords(name)}
		for i, w := range slices.Concat(t.nameWords, splitWords(doc.Objects[name].Description)) {
			weight := float32(0.3) / float32(1+i/8)
			if i < len(t.nameWords) {
				weight = 1
			}
			if k := d.schemaKinds[w]; k > 0 {
				d.usedKinds[k] = true
				t.weights[k] = max(t.weights[k], weight)
			}
		}
		if t.weights == (evidence{}) && doc.Objects[name].Description != "" {
			t.weights[thing], d.usedKinds[thing] = 0.3, true
		}
		d.types = append(d.types, t)
	}
}

// typeOf returns the index of the best type of an entity, or -1. The score of a type is the sum
// over kinds of the evidence times the weight of the type; a word of the type name in or beside
// the entity decides. An entity that is mostly of a kind that no type accepts has no type. On a
// tie the first name wins.
func (d *document) typeOf(e *entity) int {
	strongest := slices.Index(e.evidence[:], slices.Max(e.evidence[:]))
	bestScore, bestType := float32(0.2), -1
	if !d.usedKinds[strongest] && e.evidence[strongest] >= 3*float32(len(e.mentions)) {
		bestScore = 2.9 // only a word of the type name can exceed it
	}
	for i, t := range d.types {
		var score float32
		for k, v := range e.evidence {
			score += v * t.weights[k]
		}
		score /= float32(max(1, len(e.mentions)))
		if slices.ContainsFunc(t.nameWords, func(w string) bool { return slices.Contains(e.words, w) }) {
			score += 3
		}
		if score > bestScore {
			bestScore, bestType = score, i
		}
	}
	return bestType
}

// splitWords returns the words of a name or a description in lower case; a capital inside a
// word begins another word.
func splitWords(text string) []string {
	var b strings.Builder
	var last rune
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(last) {
			b.WriteByte(' ')
		}
		if last = r; !unicode.IsLetter(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// stem returns a word without its ending, but at least four letters.
func stem(word string) string {
	for _, ending := range []string{"ation", "ing", "ed", "es", "s", "ies", "y", "e"} {
		if cut, ok := strings.CutSuffix(word, ending); ok && utf8.RuneCountInString(cut) >= 4 {
			return cut
		}
	}
	return word
}
