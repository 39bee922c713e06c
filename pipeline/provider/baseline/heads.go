package baseline

import "strings"

// companySuffixes are legal forms: they end the name of a company.
const companySuffixes = `
inc inc. incorporated corp corp. corporation ltd ltd. limited llc llp plc co co. company gmbh ag kg kgaa ohg se e.v. ev mbh ug
sa s.a. sas sarl s.a.r.l. eurl spa s.p.a. srl s.r.l. bv b.v. nv n.v. ab as a/s asa oy oyj pty kk holding holdings group bhd pte
ооо оао пао зао ао ип
`

// headWords maps words inside a name to what such a name stands for. The last
// word of a name counts most.
func headWords() map[string]kind {
	heads := map[string]kind{}
	for k, words := range map[kind]string{
		org: `university college school academy institute institution laboratory lab bank trust foundation fund society association
union federation league club team fc band orchestra choir party congress parliament senate assembly council committee commission board
agency bureau department ministry office court police army navy force forces corps regiment battalion brigade division squadron fleet
church diocese company corporation industries enterprises partners associates solutions systems technologies technology software labs
records studios pictures entertainment media press publishing publishers books times post tribune herald gazette network
broadcasting airlines airways railways railway motors motor steel energy oil petroleum pharmaceuticals pharma insurance capital
ventures securities consulting services service logistics brewery alliance organization organisation authority administration council
consortium syndicate cooperative universität hochschule schule akademie institut bank stiftung verein verband gesellschaft bund partei
ministerium amt gericht polizei klinik werke verlag gruppe bundesamt université école institut banque fondation société ministère
tribunal parti syndicat association ligue agence université университет институт академия банк фонд общество партия министерство
компания корпорация завод комитет суд союз агентство служба лаборатория школа група группа universidad universidade banco ministerio`,
		place: `river lake sea ocean bay gulf strait creek falls island islands isle peninsula cape coast beach mountain mountains mount hill
hills valley canyon desert forest park plateau plain volcano glacier county province state region district territory prefecture
municipality borough township city town village parish street road avenue lane square boulevard highway bridge tunnel dam airport
station harbour harbor port canal castle palace tower cathedral temple mosque abbey monastery museum gallery library stadium arena
hospital theatre theater hotel building hall house garden gardens cemetery ranch farm republic kingdom
straße strasse platz allee fluss see berg insel schloss dom kirche bahnhof flughafen landkreis bezirk
rue avenue place boulevard rivière lac île château mont gare région département
река озеро море остров гора область край район город улица проспект площадь республика собор музей театр`,
		event: `war battle siege revolution rebellion uprising revolt massacre crisis olympics games cup championship championships tournament
open prix grand rally race derby festival conference congress summit expo exhibition election elections campaign operation
award awards prize ceremony convention tour season festival expedition day earthquake hurricane flood
krieg schlacht weltmeisterschaft messe konferenz bataille guerre révolution fête война битва революция олимпиада конференция`,
		law: `act treaty law laws constitution code directive regulation convention agreement accord accords charter amendment bill protocol
declaration statute ordinance decree pact peace gesetz verordnung vertrag richtlinie abkommen loi traité règlement accord
закон договор конституция кодекс соглашение указ`,
		product: `aircraft engine rifle missile console processor phone tablet edition suite platform framework app os`,
		work:    `symphony sonata concerto trilogy chronicles saga tales story stories ballad soundtrack manifesto`,
		title:   `order medal`,
	} {
		for w := range strings.FieldsSeq(words) {
			heads[w] = k
		}
	}
	return heads
}
