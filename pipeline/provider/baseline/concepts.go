package baseline

import (
	"slices"
	"strings"
)

// concept is a relation that the rules know by themselves, between A and B.
// A schema is read as a concept when its name or description has one of the
// names; with a name of the second list its source is B.
//
// Every list is of phrases that commas separate. A phrase matches the words of
// a sentence in order, inflected, with a few words between them.
type concept struct {
	names   string // "A names B"
	inverse string // "B inverse A"

	verbs     string // A does it, B suffers it; "by" turns it round
	backVerbs string // B does it
	phrases   string // stands between A and B, A first
	back      string // stands between B and A, B first
	nouns     string // A is the noun of B
	backNouns string // B is the noun of A
	tight     string // between A and B, with both right beside it
	symmetric bool
	life      lifeEnd // what of a bracket with two dates it reads
	comma     bool    // "A, B" of two places says it
}

// lifeEnd says which end of a life a relation is about.
type lifeEnd uint8

const (
	noLife lifeEnd = iota
	birth
	death
)

func split(list string) []string {
	var out []string
	for phrase := range strings.SplitSeq(list, ",") {
		if phrase = strings.TrimSpace(phrase); phrase != "" {
			out = append(out, phrase)
		}
	}
	return out
}

// conceptName is a name of a relation, of which forward says whether its source is A.
type conceptName struct {
	concept int // its place in the table
	words   []string
	text    string
	forward bool
}

// namesOf returns the names of all concepts, the longest first; those of equal length
// in the order of the table.
func namesOf(concepts []concept) []conceptName {
	var names []conceptName
	for i, c := range concepts {
		for _, name := range split(c.names) {
			names = append(names, conceptName{i, strings.Fields(name), name, true})
		}
		for _, name := range split(c.inverse) {
			names = append(names, conceptName{i, strings.Fields(name), name, false})
		}
	}
	slices.SortStableFunc(names, func(a, b conceptName) int { return len(b.text) - len(a.text) })
	return names
}

func conceptTable() []concept {
	return append(append(workConcepts(), placeConcepts()...), append(familyConcepts(), madeConcepts()...)...)
}

// workConcepts are relations of people and organisations.
func workConcepts() []concept {
	return []concept{
		{
			names:   "works for, work for, works at, employed by, employee of, employer, is employed, arbeitet bei, angestellt bei, работает в, travaille pour, 任职于, 就职于, يعمل في, يعمل لدى",
			inverse: "employs, employee, has employee, hired, beschäftigt",
			phrases: "work for, work at, employed by, employed at, joined, worked as, hired by, serves as, served as, arbeitet bei, arbeitet für, angestellt bei, beschäftigt bei, arbeitete bei, работает в, работал в, работала в, travaille chez, travaille pour, travaille à, 就职于, 任职于, 在工作, 加入, يعمل في, تعمل في, يعمل لدى, عمل في",
			back:    "employs, hired, appointed, recruited, beschäftigt, stellte, наняла, embauche, emploie, 聘请, 任命, عينت",
			nouns:   "employee, engineer, analyst, researcher, professor, scientist, spokesman, spokeswoman, spokesperson, manager, director, ceo, cto, cfo, president, head, lecturer, consultant, president, geschäftsführer, sprecher, ingenieur, ingenieurin, директор, сотрудник, инженер, directeur, directrice, ingénieur, المدير",
		},
		{
			names:   "ceo of, ceo, leads, lead, heads, head of, chair of, chairperson of, manages, runs, president of, leader of, directs company, director of, leitet, führt, возглавляет, dirige, 领导, 负责, يقود, يدير, ceo_of",
			inverse: "led by, headed by, managed by, chairperson, has ceo, leader, president, run by, director manager",
			verbs:   "leads, led, heads, headed, manages, managed, runs, chairs, chaired, oversees, leitet, leitete, führt, возглавляет, возглавил, возглавила, dirige, 领导, 负责, يقود, يدير, يرأس",
			nouns:   "ceo, chief executive, president, chairman, chairwoman, chair, head, director, manager, managing director, leader, mayor, governor, rector, dean, geschäftsführer, geschäftsführerin, vorstandsvorsitzender, vorstandsvorsitzende, leiter, leiterin, chef, директор, генеральный директор, глава, президент, руководитель, directeur, directrice, pdg, présidente, président, 首席执行官, 董事长, 总裁, 总经理, 校长, 院长, الرئيس التنفيذي, رئيس, مدير, رئيسة, مديرة",
			phrases: "担任, 出任, 现任",
		},
		{
			names:     "founded, founder of, founds, co founded, established, gründete, gegründet, основал, fonde, a fondé, 创立, 创办, أسس",
			inverse:   "founded by, founder, established by, gegründet von, основан, основана, fondé par, 创始人",
			verbs:     "founded, co-founded, cofounded, established, started, set up, gründete, gegründet, основал, основала, основан, основана, fonda, fondé, fondée, 创立, 创办, 创建, أسس, أسست, أسسها, أسسه",
			nouns:     "founder, co-founder, cofounder, gründer, gründerin, mitgründer, mitgründerin, основатель, основательница, сооснователь, fondateur, fondatrice, 创始人, مؤسس, مؤسسة",
			backNouns: "",
		},
		{
			names:   "acquired, acquires, bought, takes over, acquisition of, purchased, übernahm, übernimmt, приобрела, купила, rachète, a acquis, 收购, استحوذت",
			inverse: "acquired by, bought by, purchased by, taken over by",
			verbs:   "acquired, acquires, acquire, bought, buys, purchased, takes over, took over, acquisition of, übernimmt, übernahm, übernommen, kaufte, erwarb, приобрела, приобрёл, купила, купил, rachète, racheté, rachetée, acquis, 收购, 并购, استحوذت, اشترت",
		},
		{
			names:   "owned by, belongs to, property of, gehört, принадлежит, appartient, 属于",
			inverse: "owns, owner of, possesses, owner, besitzt, владеет, possède, 拥有, يملك, holds stake",
			phrases: "owned by, belongs to, belonging to, gehört zu, gehört, принадлежит, appartient à, 属于, 隶属于, مملوكة",
			back:    "owns, owned, holds, besitzt, владеет, possède, détient, 拥有, تملك, يملك",
			nouns:   "property, subsidiary", backNouns: "owner, eigentümer, владелец, propriétaire",
		},
		{
			names:   "subsidiary of, part of company, division of, tochter, дочерняя, filiale de, parent organization, parent company, 子公司",
			inverse: "subsidiary, has subsidiary, parent company of, parent organization of, parent of company",
			nouns:   "subsidiary, division, unit, arm, branch, affiliate, tochtergesellschaft, tochter, tochterfirma, дочерняя, подразделение, filiale, 子公司, 旗下, شركة تابعة", backNouns: "parent, parent company, muttergesellschaft, société mère, 母公司",
			phrases: "owned by, belongs to, gehört zu, part of",
		},
		{
			names:   "member of, belongs to group, membership, part of team, member of sports team, member of political party, mitglied, член, membre de, 成员, عضو",
			inverse: "has member, members, member",
			nouns:   "member, members, mitglied, mitglieder, член, члены, участник, membre, 成员, 会员, عضو", phrases: "joined, plays for, played for, belongs to, signed with, trat bei, вступил в, вступила в, 加入, انضم إلى, انضمت إلى",
		},
		{
			names:     "partnered with, partner of, partners with, collaborates with, cooperates, cooperates with, partnership with, alliance with, collaborated, kooperiert, сотрудничает, partenaire, 合作, شراكة, works with",
			verbs:     "partnered with, partners with, collaborates with, collaborated with, cooperates with, teamed up with, partnership with, joint venture with, agreement with, together with, kooperiert mit, arbeitet mit zusammen, partnerschaft mit, сотрудничает с, партнёрство с, соглашение с, partenariat avec, collabore avec, 与合作, 合作, شراكة مع, تعاون مع, تتعاون مع",
			nouns:     "partner, партнёр, partenaire",
			symmetric: true,
		},
		{
			names:     "competes with, competitor of, rival of, competitor, конкурент, concurrent de",
			phrases:   "competes with, rival, rivals, konkurriert mit, конкурирует с, concurrence",
			nouns:     "competitor, rival, konkurrent, конкурент, concurrent",
			symmetric: true,
		},
		{
			names: "invested in, invests in, investor in, funded, finances, funds", inverse: "funded by, investor, investors, financed by, invested by",
			verbs: "invested in, invests in, funded, financed, backed, investierte in, инвестировала в, инвестировал в, investit dans, 投资, استثمرت في",
			nouns: "investor, инвестор, investisseur",
		},
		{
			names: "educated at, studied at, alma mater, graduated from, attended, studierte, учился, étudié à, 毕业于, درس في, education", inverse: "educated, alumni, alumnus",
			phrases: "educated at, studied at, graduated from, attended, degree from, doctorate from, phd from, alumnus of, studied, studierte an, studierte in, promovierte an, окончил, окончила, учился в, училась в, étudié à, diplômé de, diplômée de, études à, 毕业于, 就读于, درس في, درست في, تخرج من, تخرجت من, تخرج في",
		},
		{
			names: "award received, received award, won award, won, awarded, auszeichnung", inverse: "awarded to, winner, won by",
			phrases: "received, won, awarded, recipient of, winner of, erhielt, gewann, получил, получила, reçu, remporté, 获得, 获, فاز, حصل على",
		},
		{
			names: "supplies, supplier of, provides to, delivers to, vendor of", inverse: "supplied by, supplier, vendor, customer of",
			verbs: "supplies, supplied, delivers to, provides, beliefert, liefert, поставляет, fournit, 供应, تورد", nouns: "supplier, vendor, lieferant, поставщик, fournisseur, 供应商",
		},
		{
			names: "reports to, subordinate of, supervised by", inverse: "supervises, supervisor of, manager of",
			phrases: "reports to, reporting to, supervised by, berichtet an, подчиняется", back: "supervises",
		},
	}
}
