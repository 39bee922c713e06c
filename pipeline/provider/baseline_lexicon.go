package provider

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/extraction"
)

// lexicon holds the words and patterns of the rules. They are general: none was
// made from expected output.
type lexicon struct {
	schemaKinds map[string]kind // words that schemas use for kinds
	nameKinds   map[string]kind // words inside names
	patterns    []pattern
	atToken     []pattern // begin at a number, or at one of months
	months      map[string]bool
	cues        []cueGroup

	stops, connectors, germanArticles, places, companies, agents, pronouns, titles map[string]bool
}

// cueGroup holds beginnings of words that say the same relationship, and those
// that say it the other way round.
type cueGroup struct{ same, opposite []string }

// pattern finds the mentions of a kind; its group, if it has one, is the name.
type pattern struct {
	kind kind
	re   *regexp.Regexp
	hint string // one of these characters must be there
}

// evidenceOf says what a word in a name speaks for.
func (l *lexicon) evidenceOf(word string) (ev evidence) {
	if k := l.nameKinds[word]; k > 0 {
		ev[k] = 3
	}
	return ev
}

func set(words string) map[string]bool {
	s := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		s[w] = true
	}
	return s
}

// invert maps every word to the kind that lists it.
func invert(lists map[kind]string) map[string]kind {
	m := map[string]kind{}
	for k := person; k < kinds; k++ {
		for w := range strings.FieldsSeq(lists[k]) {
			m[w] = k
		}
	}
	return m
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

// newPatterns returns the patterns that are looked for where one of their
// characters is, and those that begin with a number, a month or a currency.
func newPatterns() (anywhere, atToken []pattern) {
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
	atToken = []pattern{
		{kind: date, re: re(`^(?:\d{4}年(?:\d{1,2}月)?(?:\d{1,2}日)?|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4}|Q[1-4] \d{4})`)},
		{kind: date, re: re(`^\d{1,2}(?:st|nd|rd|th|er)?\.? (?:of |de )?` + months + `(?:,? \d{4})?(?: года)?`)},
		{kind: date, re: re(`^` + months + `\.? (?:\d{4}|\d{1,2}(?:st|nd|rd|th)?(?:, ?\d{4})?)`)},
		{kind: money, re: re(`^(?:US\$|[$€£¥₽]|(?:USD|EUR|GBP|CHF) ?)` + amount + `(?: ?` + scale + `)?`)},
		{kind: money, re: re(`^` + amount + ` ?(?:` + scale + ` )?(?:d'|de )?(?:` + coins + `|€)|^\d[\d.,]*[万亿千]*(?:美元|欧元|人民币|元)`)},
		{kind: percent, re: re(`^` + amount + ` ?(?:%|percent|per cent|Prozent|процентов|pour cent)`)},
		{kind: quantity, re: re(`^` + amount + ` ?(?:km|kg|cm|mm|MW|kW|GB|tonnes|metres|meters|miles|hours|hectares|days|years)`)},
		{kind: date, re: re(`^(?:1[5-9]|20)\d\d(?: года| г\.)?`)},
	}
	return anywhere, atToken
}

func newLexicon() *lexicon {
	l := &lexicon{}
	l.patterns, l.atToken = newPatterns()
	l.months = set(strings.ToLower(strings.ReplaceAll(months, "|", " ")) + ` q1 q2 q3 q4 us us$ usd eur gbp chf $ € £ ¥ ₽`)
	l.stops = set(`a an the this that these those it its he she his her him they them their we us our you your i me my who which what when where why how there here then than so such some any each every all both most many more few other another no
not only also even still yet already and or but nor for of in on at by to from with without within into over under above after before during since until while although because if as about against between through is are was were be
been has have had do does did will would shall can could may might must one two three first second however moreover meanwhile today yesterday tomorrow dear hi hello thanks regards re please yes der die das den dem des ein eine
einen einem einer und oder aber nicht auch ich er sie es wir im am an auf aus bei mit nach von vom vor zu zum zur für ist firma le la les l' un une des du de et ou mais ce cette il elle on nous vous dans en sur avec pour par est
sont a ont au aux и в во не на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от о из он это они мы для при после также في من على إلى عن مع هذا هذه التي الذي أن إن كان كما بين بعد قبل عند عام ثم
أو لكن قد وقد`)
	l.connectors = set(`of the de la du des von van der den zu di da del y & d' für und al bin ibn`)
	l.germanArticles = set(`der die das den dem des ein eine einen einem einer eines im am zum zur beim vom kein keine seine ihre seiner ihrer und oder mit für ist`)
	l.places = set(`in at from near to into across nach bei aus à в из`)
	l.companies = set(`inc ltd llc plc corp co gmbh ag kg se sa spa bv nv oy ab as`)
	l.agents = set(`by von durch par`)
	l.pronouns = set(`he she er sie il elle он она`)
	l.titles = set(`mr mrs ms miss dr prof professor sir dame lady lord judge justice president chairman chairwoman captain herr frau ceo cto cfo г-н г-жа`)
	l.nameKinds = invert(map[kind]string{
		org: `inc ltd llc plc corp co gmbh ag kg se sa spa bv oy corporation company companies group holding holdings bank university college institute institution council committee ministry agency association society foundation museum school
hospital clinic partners labs laboratory laboratories systems industries commission department authority union club press trust services energy technologies software court board office centre academy verein hochschule universität
banque société université ооо пао ао университет институт завод банк министерство компания`,
		place: `river city street road avenue lane valley island islands lake mountain mount county bay harbour harbor port bridge park square village district province straße platz rue улица площадь город река озеро`,
		work:  `sonata symphony novel journal report handbook manual`,
		thing: `agreement act regulation directive statute treaty amendment case mission project incident standard`,
	})
	l.schemaKinds = invert(map[kind]string{
		person: `person people persons human individual man woman employee author player athlete politician actor artist scientist researcher patient customer attendee judge lawyer mensch человек лицо сотрудник personne 人 人物 人员 شخص per`,
		org: `organization organisation organizations company companies business firm agency institution institute university school team club party association vendor supplier bank ministry department authority court brand manufacturer
unternehmen firma организация компания entreprise 组织 机构 公司 شركة منظمة مؤسسة org`,
		place: `place places location locations city town village region area state country nation province county river lake sea mountain building address site street geography territory ort stadt land место город страна регион адрес lieu ville
pays ciudad país 地点 地方 城市 国家 地区 مكان مدينة موقع دولة loc gpe`,
		date:     `date dates time day year datum zeit дата время год année fecha 日期 时间 年份 تاريخ وقت deadline`,
		money:    `money amount price cost sum fee revenue budget payment salary betrag preis geld сумма деньги цена montant prix 金额 价格 مبلغ سعر`,
		percent:  `percentage percent rate share ratio anteil prozentsatz процент pourcentage 百分比 نسبة`,
		quantity: `quantity quantities number measurement measure value menge количество quantité 数量 كمية`,
		work:     `work book film movie song album publication document novel play title painting journal werk buch произведение книга œuvre livre 作品 书 عمل كتاب`,
		code:     `identifier id code reference email mail url phone account isbn doi kennung nummer номер код identifiant 编号 代码 رقم رمز`,
		role:     `role position job occupation office function title rolle должность poste 职位 职务 منصب وظيفة`,
		thing: `thing entity concept object product software system project device technology tool platform model event incident mission law act regulation contract agreement statute treaty standard misc other produkt продукт produit 产品 منتج
component instrument equipment material chemical disease gene species organism`,
	})
	for line := range strings.Lines(cueGroups) {
		forward, backward, _ := strings.Cut(line, "|")
		group, opposite := strings.Fields(forward), strings.Fields(backward)
		if l.cues = append(l.cues, cueGroup{group, opposite}); opposite != nil {
			l.cues = append(l.cues, cueGroup{opposite, group})
		}
	}
	return l
}

// cueGroups lists, a line each, beginnings of words that say much the same. A
// relationship whose name has a word of a line takes the whole line; what stands
// beyond the bar says it the other way round.
const cueGroups = `
born birth geboren née né родил ولد 出生
died death gestorben mort умер сконча توفي 去世
lived lives living moved resid settled wohn жил
married marri wife husband spouse wed verheirat épous жена муж женат замуж
parent father mother vater mutter père mère отец мать | child son daughter sohn tochter fils fille сын дочь
sibling brother sister bruder schwester frère sœur брат сестр
studied educat studies graduat student degree studier окончил учил 毕业
employ work joined hired engineer worked arbeit angestellt travail работа трудо عمل تعمل يعمل
member joined mitglied член
created creat wrote written author painted composed develop design built made publish invent entwickel создал написал разработ 推出 研发 طورت
founded found establish gegründet gründ fondé основ 成立 创立 أسس
located based headquarter sitz ansässig situé располож находится 位于 总部 مقر
acquired acqui bought purchas takeover übern приобр купил 收购 استحوذ
own owns subsidiary belongs gehört владе
led lead leads head chief ceo director chair president manage geschäftsführ leit директор руковод возглав رئيس مدير
partner partnered cooperat collaborat kooper партн 合作 شراكة
invest funding funded 投资 استثم
holds role appointed named serves ernannt назначен
`

// kind is what the rules themselves tell apart; types of a schema take kinds.
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
	thing // a named thing of no other kind
	kinds
)

// evidence is how much speaks for each kind.
type evidence [kinds]float32

func (e *evidence) add(other evidence) {
	for k, v := range other {
		e[k] += v
	}
}

// entityType is an entity type of the schema.
type entityType struct {
	name  string
	own   []string // the words of its name
	takes evidence // how well it takes each kind
}

// readTypes makes the types of a schema that are allowed, in order of their names.
func (d *document) readTypes(doc extraction.Document) {
	names := slices.Sorted(maps.Keys(doc.Objects))
	if len(names) == 0 {
		names = slices.Sorted(slices.Values(doc.AllowedTypes))
	}
	for _, name := range slices.Compact(names) {
		if len(doc.AllowedTypes) > 0 && !slices.Contains(doc.AllowedTypes, name) {
			continue
		}
		t := entityType{name: name, own: splitWords(name)}
		for i, w := range slices.Concat(t.own, splitWords(doc.Objects[name].Description)) {
			weight := float32(0.3) / float32(1+i/8)
			if i < len(t.own) {
				weight = 1
			}
			if k := d.schemaKinds[w]; k > 0 {
				d.wanted[k] = true
				t.takes[k] = max(t.takes[k], weight)
			}
		}
		if t.takes == (evidence{}) && doc.Objects[name].Description != "" {
			t.takes[thing], d.wanted[thing] = 0.3, true
		}
		d.types = append(d.types, t)
	}
}

// typeOf chooses the type of an entity, or -1: the sum over kinds of evidence
// and how well the type takes the kind; a word of the type's name in or beside
// the entity's decides. What is mostly of a kind that no type takes has none. Of
// equals the first in the order of names wins.
func (d *document) typeOf(e *entity) int {
	strongest := kind(0)
	for k := person; k < kinds; k++ {
		if e.evidence[k] > e.evidence[strongest] {
			strongest = k
		}
	}
	best, at := float32(0.2), -1
	if !d.wanted[strongest] && e.evidence[strongest] >= 3*float32(len(e.mentions)) {
		best = 2.9 // only its own word is left
	}
	for i, t := range d.types {
		var sum float32
		for k, v := range e.evidence {
			sum += v * t.takes[k]
		}
		sum /= float32(max(1, len(e.mentions)))
		if slices.ContainsFunc(t.own, func(w string) bool { return slices.Contains(e.words, w) }) {
			sum += 3
		}
		if sum > best {
			best, at = sum, i
		}
	}
	return at
}

// splitWords returns the words of a name or a description in lower case; a
// capital inside a word begins another one.
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

// stem is the beginning that a word shares with its other forms: without its
// last letters, never under four.
func stem(word string) string {
	for _, ending := range []string{"ation", "ing", "ed", "es", "s", "ies", "y", "e"} {
		if cut, ok := strings.CutSuffix(word, ending); ok && utf8.RuneCountInString(cut) >= 4 {
			return cut
		}
	}
	return word
}
