package baseline

import "strings"

// countryNames lists states of today and some of yesterday, in English, German,
// French, Russian, Chinese and Arabic where the name differs and is frequent.
const countryNames = `Afghanistan,Albania,Algeria,Andorra,Angola,Argentina,Armenia,Australia,Austria,Azerbaijan,Bahamas,Bahrain,
Bangladesh,Barbados,Belarus,Belgium,Belize,Benin,Bhutan,Bolivia,Bosnia and Herzegovina,Botswana,Brazil,Brunei,Bulgaria,Burkina Faso,
Burundi,Cambodia,Cameroon,Canada,Cape Verde,Chad,Chile,China,Colombia,Congo,Costa Rica,Croatia,Cuba,Cyprus,Czech Republic,Czechia,
Czechoslovakia,Denmark,Djibouti,Dominica,Dominican Republic,Ecuador,Egypt,El Salvador,England,Eritrea,Estonia,Ethiopia,Fiji,Finland,
France,Gabon,Gambia,Georgia,Germany,Ghana,Greece,Grenada,Guatemala,Guinea,Guyana,Haiti,Honduras,Hungary,Iceland,India,Indonesia,Iran,
Iraq,Ireland,Israel,Italy,Ivory Coast,Jamaica,Japan,Jordan,Kazakhstan,Kenya,Kosovo,Kuwait,Kyrgyzstan,Laos,Latvia,Lebanon,Lesotho,
Liberia,Libya,Liechtenstein,Lithuania,Luxembourg,Madagascar,Malawi,Malaysia,Maldives,Mali,Malta,Mauritania,Mauritius,Mexico,Moldova,
Monaco,Mongolia,Montenegro,Morocco,Mozambique,Myanmar,Burma,Namibia,Nauru,Nepal,Netherlands,New Zealand,Nicaragua,Niger,Nigeria,
North Korea,North Macedonia,Norway,Oman,Pakistan,Palau,Palestine,Panama,Papua New Guinea,Paraguay,Peru,Philippines,Poland,Portugal,
Qatar,Romania,Russia,Rwanda,Samoa,San Marino,Saudi Arabia,Scotland,Senegal,Serbia,Seychelles,Sierra Leone,Singapore,Slovakia,Slovenia,
Somalia,South Africa,South Korea,South Sudan,Soviet Union,Spain,Sri Lanka,Sudan,Suriname,Sweden,Switzerland,Syria,Taiwan,Tajikistan,
Tanzania,Thailand,Togo,Tonga,Trinidad and Tobago,Tunisia,Turkey,Turkmenistan,Uganda,Ukraine,United Arab Emirates,United Kingdom,
United States,United States of America,USA,U.S.,US,UK,U.K.,USSR,UAE,Great Britain,Britain,Uruguay,Uzbekistan,Vatican City,Venezuela,
Vietnam,Wales,Northern Ireland,Yemen,Yugoslavia,Zambia,Zimbabwe,Deutschland,Österreich,Schweiz,Frankreich,Italien,Spanien,Polen,
Russland,Niederlande,Belgien,Dänemark,Schweden,Norwegen,Finnland,Ungarn,Griechenland,Türkei,Großbritannien,Vereinigte Staaten,
Allemagne,Autriche,Suisse,Italie,Espagne,Pologne,Russie,Pays-Bas,Belgique,Royaume-Uni,États-Unis,Chine,Japon,Maroc,Tunisie,Algérie,
Россия,России,Россию,Украина,Украине,Украины,Германия,Германии,Франция,Франции,США,Китай,Китая,Китае,Япония,Японии,Казахстан,
Казахстане,Беларусь,Италия,Италии,Великобритания,Великобритании,Польша,Польше,Индия,Индии,СССР,
中国,美国,英国,法国,德国,日本,韩国,俄罗斯,印度,加拿大,澳大利亚,意大利,西班牙,巴西,新加坡,瑞士,瑞典,荷兰,
مصر,السعودية,الإمارات,الأردن,العراق,سوريا,لبنان,المغرب,تونس,الجزائر,ليبيا,السودان,اليمن,قطر,الكويت,البحرين,عمان,فلسطين,تركيا,إيران,
فرنسا,ألمانيا,بريطانيا,أمريكا,روسيا,الصين,اليابان,الهند,إسبانيا,إيطاليا`

// cityNames lists capitals and other very large or much-named cities.
const cityNames = `London,Paris,Berlin,Madrid,Rome,Vienna,Brussels,Amsterdam,Copenhagen,Stockholm,Oslo,Helsinki,Dublin,Lisbon,Athens,
Warsaw,Prague,Budapest,Bucharest,Sofia,Belgrade,Zagreb,Moscow,Kyiv,Kiev,Minsk,Istanbul,Ankara,Cairo,Baghdad,Tehran,Riyadh,Dubai,
Abu Dhabi,Doha,Beirut,Damascus,Jerusalem,Tel Aviv,Amman,Tunis,Algiers,Casablanca,Rabat,Lagos,Nairobi,Johannesburg,Cape Town,Accra,
Addis Ababa,New Delhi,Delhi,Mumbai,Kolkata,Chennai,Bangalore,Hyderabad,Karachi,Lahore,Islamabad,Dhaka,Kathmandu,Colombo,Bangkok,Hanoi,
Jakarta,Manila,Kuala Lumpur,Beijing,Shanghai,Shenzhen,Guangzhou,Hong Kong,Taipei,Seoul,Tokyo,Osaka,Kyoto,Sydney,Melbourne,Brisbane,
Perth,Auckland,Wellington,New York,New York City,Los Angeles,Chicago,Houston,Philadelphia,San Francisco,San Diego,Boston,Seattle,
Washington,Miami,Atlanta,Dallas,Denver,Detroit,Toronto,Montreal,Vancouver,Ottawa,Mexico City,Havana,Bogotá,Lima,Santiago,Buenos Aires,
São Paulo,Rio de Janeiro,Caracas,Munich,Hamburg,Frankfurt,Cologne,Stuttgart,Leipzig,Dresden,Zurich,Geneva,Basel,Milan,Naples,Turin,
Florence,Venice,Barcelona,Lyon,Marseille,Nice,Rotterdam,Antwerp,Manchester,Birmingham,Liverpool,Edinburgh,Glasgow,Oxford,Cambridge,
Saint Petersburg,California,Texas,Florida,Ohio,Illinois,Pennsylvania,Michigan,Virginia,Massachusetts,New Jersey,Ontario,Quebec,
Bavaria,München,Köln,Wien,Zürich,Genf,Nürnberg,Düsseldorf,Hannover,Bremen,Genève,Bruxelles,Londres,Lille,Toulouse,Bordeaux,Nantes,
Москва,Москве,Москвы,Санкт-Петербург,Санкт-Петербурге,Петербург,Новосибирск,Новосибирске,Казань,Казани,Екатеринбург,Екатеринбурге,
Киев,Киеве,Минск,Минске,北京,上海,深圳,广州,杭州,南京,武汉,成都,重庆,天津,西安,苏州,香港,台北,东京,伦敦,纽约,巴黎,
القاهرة,الرياض,جدة,دبي,أبوظبي,بغداد,دمشق,بيروت,الدوحة,الدار البيضاء,الرباط,الإسكندرية,لندن,باريس,موسكو,برلين`

const continentNames = `Europe,Asia,Africa,North America,South America,Antarctica,Oceania,America,Latin America,Middle East,Europa,Asien,Afrika,
Европа,Азия,欧洲,亚洲,非洲,أوروبا,آسيا,أفريقيا`

// demonymWords maps adjectives and nouns of peoples, religions and languages.
func demonymWords() map[string]kind {
	words := map[string]kind{}
	for w := range strings.FieldsSeq(`american british english french german italian spanish portuguese dutch belgian swiss austrian polish
czech slovak hungarian romanian bulgarian greek turkish russian ukrainian serbian croatian slovenian bosnian albanian swedish norwegian
danish finnish icelandic irish scottish welsh estonian latvian lithuanian chinese japanese korean vietnamese thai indian pakistani
bangladeshi nepalese indonesian malaysian filipino australian canadian mexican brazilian argentine chilean colombian peruvian cuban
egyptian moroccan tunisian algerian libyan iraqi iranian persian syrian lebanese israeli palestinian jordanian saudi nigerian kenyan
ethiopian ghanaian european asian african arab jewish roman soviet mongolian tibetan georgian armenian kazakh afghan jamaican
americans germans russians italians europeans arabs jews greeks romans indians
christian catholic protestant orthodox muslim islamic buddhist hindu sikh lutheran anglican
christianity catholicism protestantism islam buddhism hinduism judaism calvinism`) {
		words[w] = group
	}
	for w := range strings.FieldsSeq(`arabic latin hebrew sanskrit mandarin cantonese hindi urdu bengali tamil swahili esperanto`) {
		words[w] = language
	}
	return words
}
