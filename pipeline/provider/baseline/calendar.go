package baseline

import "strings"

const weekdayNames = `monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag sonntag
lundi mardi mercredi jeudi vendredi samedi dimanche понедельник вторник среду четверг пятницу субботу воскресенье
الاثنين الثلاثاء الأربعاء الخميس الجمعة السبت الأحد`

// periodWords are units of time.
const periodWords = `second seconds minute minutes hour hours day days week weeks month months year years decade decades century centuries
quarter quarters sekunden minuten stunde stunden tag tage tagen woche wochen monat monate monaten jahr jahre jahren jahrhundert
seconde secondes heure heures jour jours semaine semaines mois an ans année années siècle
секунд минут час часа часов день дня дней неделя недели недель месяц месяца месяцев год года лет век века
ثانية دقيقة ساعة يوم أيام أسبوع أسابيع شهر أشهر سنوات سنة عاما`

const unitWords = `km m cm mm kilometre kilometres kilometer kilometers metre metres meter meters mile miles foot feet inch inches
kg g mg tonne tonnes ton tons pound pounds ounce ounces litre litres liter liters ml l hectare hectares acre acres kw kwh mw mwh gw gwh
watt watts volt volts v °c °f c hz ghz mhz mb gb tb kb mbit mph km/h km² m² ha bar pa kpa nm µm μm
kilometern meter tonnen liter hektar prozentpunkte mètres kilomètres тонн км кг метров рублей литров`

const scaleWords = `hundred thousand million millions billion billions trillion bn mn mio mio. mrd mrd. m k tausend millionen milliarden million
milliarde mille millions milliard milliards тысяч тысячи млн миллионов миллиона млрд миллиардов тыс тыс. ألف مليون مليار ملايين`

const currencyWords = `$ € £ ¥ ₽ ₹ ₩ us$ usd eur gbp jpy cny rub chf inr cad aud dollar dollars euro euros pound pounds yen yuan rupee rupees
franken franc francs ruble rubles rouble roubles рублей рубля рубль руб руб. долларов доллара евро юаней دولار ريال درهم دينار جنيه يورو
dollars sterling`

const numeralWords = `two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen
twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen hundreds thousands
zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig hundert
deux trois quatre cinq sept huit neuf dix onze douze vingt trente cent
два две три четыре пять шесть семь восемь девять десять двадцать тридцать сто`

// monthNumbers maps the names of months in nine languages to 1..12.
func monthNumbers() map[string]int {
	months := map[string]int{}
	for _, list := range []string{
		"january february march april may june july august september october november december",
		"jan. feb. mar. apr. may jun. jul. aug. sept. oct. nov. dec.",
		"jan feb mar apr may jun jul aug sep oct nov dec",
		"januar februar märz april mai juni juli august september oktober november dezember",
		"janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
		"enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
		"gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
		"janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
		"januari februari maart april mei juni juli augustus september oktober november december",
		"января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
		"январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре",
		"январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
		"يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
	} {
		for i, name := range strings.Fields(list) {
			months[name] = i + 1
		}
	}
	return months
}
