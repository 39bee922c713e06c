package baseline

import "strings"

// lexicon is the general knowledge of the rules: closed lists of words, none
// of them taken from a dataset. It is built once per extractor and only read.
type lexicon struct {
	stops         map[string]bool // function words and other words that are capitalised only at a beginning
	starters      map[string]bool // words that begin sentences and headings, but may be part of a name
	prefixes      map[string]bool // starters that begin names, too
	qualifiers    map[string]bool // stand before an office: "prime" minister
	language      map[string]string
	connectors    map[string]bool // may stand inside a name
	articles      map[string]bool // may stand behind a connector inside a name
	splits        map[string]bool // parts behind a hyphen that do not belong to the name
	elisions      map[string]bool
	domains       map[string]bool
	abbreviations map[string]bool // words whose full stop belongs to them
	titles        map[string]bool // honorifics: a person follows
	roles         map[string]bool // professions and offices
	given         map[string]bool // frequent given names
	heads         map[string]kind // words inside a name that say what it names
	suffixes      map[string]bool // legal forms of companies, and words that stand for them
	legal         map[string]bool // legal forms in the strict sense: nothing follows them in a name
	labels        map[string]bool // say what follows without belonging to it: "Firma"
	countries     map[string]bool
	cities        map[string]bool
	continents    map[string]bool
	demonyms      map[string]kind // peoples, languages, religions
	months        map[string]int
	weekdays      map[string]bool
	periods       map[string]bool // units of time
	units         map[string]bool
	scales        map[string]bool
	currencies    map[string]bool
	numerals      map[string]bool
	percents      map[string]bool
	placing       map[string]bool // prepositions that a place follows
	saying        map[string]bool // verbs that a person or an organisation does
	works         map[string]bool // nouns that the title of a work follows
	kinds         map[string][]kind
	generic       map[string]bool // words of schemas that name a kind as a whole
	concepts      []concept
	conceptNames  []conceptName // the longest first
}

func newLexicon() *lexicon {
	concepts := conceptTable()
	return &lexicon{
		stops:         set(stopWords),
		starters:      set(starterWords),
		prefixes:      set("north south east west northern southern eastern western central upper lower great new old state city group"),
		qualifiers:    set("prime vice chief former executive deputy senior lead first general acting foreign managing"),
		language:      languageMarkers(),
		connectors:    set(connectorWords),
		articles:      set("the la las le les los l' der den dem das des el al il lo"),
		splits:        set(splitWords),
		elisions:      set("l d qu j n s m t c dell all nell sull un"),
		domains:       set("com org net io de fr ru ai co edu gov eu uk ch"),
		abbreviations: set(abbreviationWords),
		titles:        set(titleWords),
		roles:         set(roleWords),
		given:         set(givenNames),
		heads:         headWords(),
		suffixes:      set(companySuffixes),
		legal:         set("inc inc. corp. ltd ltd. llc llp plc gmbh ag kg kgaa ohg mbh ug sa s.a. sas sarl s.p.a. srl b.v. n.v. oyj"),
		labels:        set("firma unternehmen konzern société entreprise groupe компания компании фирма корпорация invoice contract"),
		countries:     phrases(countryNames),
		cities:        phrases(cityNames),
		continents:    phrases(continentNames),
		demonyms:      demonymWords(),
		months:        monthNumbers(),
		weekdays:      set(weekdayNames),
		periods:       set(periodWords),
		units:         set(unitWords),
		scales:        set(scaleWords),
		currencies:    set(currencyWords),
		numerals:      set(numeralWords),
		percents:      set("% percent per-cent prozent pourcent процент процента процентов percentage بالمئة ٪ ％"),
		placing:       set(placingWords),
		saying:        set(sayingWords),
		works:         set(workNouns),
		kinds:         schemaWords(),
		generic:       set(genericWords),
		concepts:      concepts,
		conceptNames:  namesOf(concepts),
	}
}

// gazetteer reports a country, city or continent of one word.
func (l *lexicon) gazetteer(w string) bool { return l.countries[w] || l.cities[w] || l.continents[w] }

// set makes a set of the words in lists that white space separates.
func set(lists ...string) map[string]bool {
	words := map[string]bool{}
	for _, list := range lists {
		for _, w := range strings.Fields(list) {
			words[w] = true
		}
	}
	return words
}

// phrases makes a set of the entries in a list that commas separate.
func phrases(list string) map[string]bool {
	entries := map[string]bool{}
	for entry := range strings.SplitSeq(list, ",") {
		entries[strings.ToLower(strings.TrimSpace(entry))] = true
	}
	return entries
}
