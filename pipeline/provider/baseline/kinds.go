package baseline

// kind is what the rules themselves tell apart; the types of a schema are
// mapped to kinds, and evidence is collected per kind.
type kind uint8

const (
	person kind = iota
	org
	place
	country
	date
	duration
	quantity
	money
	percent
	work
	product
	event
	law
	language
	group
	title
	identifier
	thing
	kinds // how many there are
)

// evidence is how much speaks for each kind.
type evidence [kinds]float32

func (e *evidence) add(other evidence) {
	for k, v := range other {
		e[k] += v
	}
}

// neighbours says which kinds a type also takes, at a discount, when no type
// of the schema is meant for them.
func (k kind) neighbours() map[kind]float32 {
	switch k {
	case country:
		return map[kind]float32{place: 0.95, org: 0.2}
	case duration:
		return map[kind]float32{date: 0.7, quantity: 0.5}
	case money, percent:
		return map[kind]float32{quantity: 0.8}
	case work:
		return map[kind]float32{product: 0.5, thing: 0.6}
	case product:
		return map[kind]float32{work: 0.4, thing: 0.7, identifier: 0.2}
	case event:
		return map[kind]float32{thing: 0.7}
	case law:
		return map[kind]float32{work: 0.6, thing: 0.7}
	case language:
		return map[kind]float32{group: 0.6, thing: 0.6}
	case group:
		return map[kind]float32{place: 0.1, org: 0.1, thing: 0.5}
	case title:
		return map[kind]float32{thing: 0.5}
	case identifier:
		return map[kind]float32{product: 0.3}
	case thing:
		return map[kind]float32{product: 0.35, work: 0.35, org: 0.3}
	}
	return nil
}

// genericWords lists the words that name a kind as a whole; a type named by a
// narrower word ("athlete") stands behind one of them ("person").
const genericWords = `person human people individual organization organisation company place location city country date time duration period
quantity number amount money price percentage work film book product software event law contract language nationality role position
identifier code misc other thing entity literal mensch unternehmen ort datum человек организация компания место дата сумма
personne organisation entreprise lieu montant 人 人物 组织 机构 公司 地点 日期 时间 金额 شخص شركة منظمة مكان تاريخ`

// schemaWords maps words that schemas use in names and descriptions of types
// to the kinds that they mean.
func schemaWords() map[string][]kind {
	words := map[string][]kind{}
	for k, list := range map[kind]string{
		person: `person people human individual man woman employee author player athlete politician actor artist character scientist
researcher patient customer attendee participant speaker founder executive leader ceo lawyer judge celebrity name surname
mensch personen mitarbeiter человек люди персона лицо сотрудник personne personnes individu persona 人 人物 人名 人员 شخص أشخاص per`,
		org: `organization organisation organizations organisations company companies corporation business firm agency institution
institute university school team club party band association enterprise employer vendor supplier bank ministry department
government unternehmen firma organisationen behörde организация компания фирма учреждение предприятие entreprise société
组织 机构 公司 企业 شركة منظمة مؤسسة جهة org client customer manufacturer publisher brand authority body regulator startup`,
		place: `place location places locations city town village region area state province county river watercourse lake sea
mountain building address site facility street landmark geography geographic territory airport station ort stadt orte adresse
место город регион адрес местоположение lieu ville lieux adresse ciudad lugar 地点 地方 城市 位置 地区 مكان مدينة موقع loc gpe water body`,
		country:    `country nation land staat страна государство pays país 国家 دولة gpe`,
		date:       `date time day year datum zeit zeitpunkt дата время год année fecha 日期 时间 年份 تاريخ وقت moment timestamp deadline`,
		duration:   `duration period interval dauer zeitraum период durée 期间 مدة term`,
		quantity:   `quantity number count measurement measure amount value metric figure ordinal cardinal dosage size weight length menge zahl anzahl количество число quantité nombre 数量 数字 عدد كمية`,
		money:      `money amount price cost sum currency fee revenue monetary budget payment salary betrag preis geld сумма деньги цена montant prix 金额 价格 مبلغ سعر`,
		percent:    `percentage percent rate share ratio prozentsatz процент pourcentage 百分比 نسبة`,
		work:       `work book film movie song album publication document literary musical novel play series title painting journal newspaper report werk buch произведение книга фильм œuvre livre 作品 书 电影 عمل كتاب`,
		product:    `product software application model device technology tool platform vehicle system brand computer hardware game drug medicine equipment material produkt software продукт товар изделие produit logiciel 产品 软件 منتج برنامج artifact asset component service instrument machine`,
		event:      `event incident war battle conference meeting festival race competition tournament election award spaceflight mission veranstaltung ereignis событие мероприятие événement 事件 活动 حدث فعالية outage accident`,
		law:        `law act regulation treaty contract agreement statute directive policy clause standard gesetz vertrag закон договор loi contrat 法律 合同 协议 قانون عقد اتفاقية`,
		language:   `language sprache язык langue idioma 语言 لغة`,
		group:      `nationality religion ethnic ethnicity demonym denomination norp nationalität религия национальность religion nationalité 民族 宗教 جنسية دين`,
		title:      `role position job occupation profession rank office function beruf rolle должность профессия poste fonction métier 职位 职务 职业 منصب وظيفة مهنة`,
		identifier: `identifier id code reference serial email mail url phone telephone contact iban account isbn doi kennung nummer номер код идентификатор identifiant référence 编号 代码 电话 邮箱 رقم رمز`,
		thing:      `misc miscellaneous other thing entity concept object unknown any literal item topic subject term sonstiges прочее другое autre divers 其他 概念 أخرى`,
	} {
		for _, w := range sorted(set(list)) {
			words[w] = append(words[w], k)
		}
	}
	for w := range words {
		sortKinds(words[w])
	}
	return words
}
