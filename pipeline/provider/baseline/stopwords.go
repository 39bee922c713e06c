package baseline

import "strings"

// stopWords are function words of English, German, French, Spanish, Italian,
// Portuguese, Dutch, Russian and Arabic: a modest list, lower-case.
const stopWords = englishStops + germanStops + frenchStops + spanishStops + russianStops + arabicStops

const englishStops = `
a an the this that these those it its he she his her him hers they them their theirs we us our ours you your yours i me my mine
who whom whose which what when where why how there here then than thus so such some any each every either neither both all most many
much more less few several other another same own only also just even still yet already always never often once twice again further
and or but nor for of in on at by to from with without within into onto upon over under above below between among amongst through
throughout during before after since until till while whereas although though because if unless as about against across along around
behind beside besides beyond despite except inside outside near off out past per toward towards up down via like unlike
is are was were be been being am has have had having do does did doing done will would shall should can could may might must
not no yes one ones another others let lets later early late soon now today tomorrow yesterday however moreover furthermore therefore
nevertheless nonetheless meanwhile otherwise instead indeed perhaps according following including based due given regarding
first second third fourth fifth last next previous finally initially eventually recently currently formerly originally subsequently
additionally similarly consequently notably together overall approximately nearly almost roughly
`

const germanStops = `
der die das den dem des ein eine einen einem einer eines kein keine keinen und oder aber denn sondern doch nicht auch nur schon noch
ich du er sie es wir ihr ihn ihm ihnen mich dich uns euch mein dein sein seine seinen seinem seiner ihre ihren ihrem ihrer unser
dieser diese dieses diesem diesen jener jene jenes welcher welche welches wer was wo wann wie warum weil dass wenn als ob bis seit
in im an am auf aus bei beim mit nach von vom vor zu zum zur über unter durch für gegen ohne um während wegen zwischen neben hinter
ist sind war waren wird werden wurde wurden hat haben hatte hatten kann können soll sollen muss müssen darf bereits sowie sowohl
dort hier heute gestern morgen damals später zuvor danach dabei damit dazu dann außerdem jedoch zudem allerdings insgesamt rund etwa
alle alles viele mehr wenige einige beide jeder jede jedes andere anderen ersten erste zweite zweiten laut gemäß
`

const frenchStops = `
le la les l' un une des du de d' au aux et ou mais donc or ni car ce cet cette ces il elle ils elles on nous vous je tu me te se
son sa ses leur leurs mon ma mes ton ta tes notre nos votre vos qui que qu' quoi dont où quand comment pourquoi lequel laquelle
dans en sur sous avec sans pour par contre entre vers chez depuis pendant avant après lors selon malgré jusque
est sont était étaient fut furent sera seront a ont avait avaient être avoir été ne pas plus moins très aussi ainsi alors
même tout toute tous toutes plusieurs quelques chaque autre autres premier première deux trois cependant toutefois puis ensuite enfin
`

const spanishStops = `
el la los las un una unos unas y o pero que de del al en con por para sin sobre entre desde hasta según como cuando donde
es son era eran fue fueron ser estar está están ha han había se su sus lo le les este esta estos estas ese esa aquel
il lo gli uno nel nella nei delle della dei dal dalla che chi con per tra fra è sono era erano stato
os as um uma uns umas e ou mas do da dos das no na nos nas pelo pela em com foi são ao
het een en of maar niet van voor met op te aan bij naar door over onder tegen zijn wordt werd werden heeft hebben had
`

const russianStops = `
и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее её мне было вот от меня еще ещё нет о об из
ему теперь когда даже ну вдруг ли если уже или ни быть был него до вас нибудь опять уж вам ведь там потом себя ничего ей может они
тут где есть надо ней для мы тебя их чем была сам чтоб без будто чего раз тоже себе под будет ж тогда кто этот того потому этого
какой совсем ним здесь этом один почти мой тем чтобы нее неё сейчас были куда зачем всех никогда можно при наконец два другой хоть
после над больше тот через эти нас про всего них какая много разве три эту моя впрочем свою этой перед иногда лучше чуть том нельзя
такой им более всегда конечно всю между это также однако кроме согласно поэтому затем позже сегодня вчера
`

const arabicStops = `
في من على إلى الى عن مع هذا هذه ذلك تلك التي الذي الذين ما لا لم لن إن أن ان كان كانت يكون هو هي هم هن نحن أنا أنت كل بعض بين
بعد قبل عند عندما حيث ثم أو او أم بل لكن قد وقد كما حتى منذ خلال حول ضد تحت فوق غير عام سنة وهو وهي وفي ومن وعلى وإلى وكان وكانت
تم يتم ولد ولدت عمل يعمل تعمل قال قالت أعلن أعلنت يقع تقع أسس أسست تأسست تأسس درس درست توفي توفيت تزوج اشترت استحوذت لدى هناك أي
مليون مليار ألف دولار ريال درهم دينار جنيه يورو بالمئة اليوم أمس غدا إذ إذا منصب بقيادة برئاسة الماضي المقبل الحالي
`

// starterWords begin sentences often and are no names there.
const starterWords = `
please note see dear sincerely regards thanks thank subject re fwd attached summary abstract introduction background methods method
results result conclusion conclusions discussion references appendix chapter section article figure table page item agenda minutes
action actions decision decisions attendees present absent location date time purpose scope overview details status notes note
based using used given made born died raised educated located founded established known named called written directed produced released
published built designed developed created launched opened closed signed awarded appointed elected married adopted
today's new old two three four five six seven eight nine ten several various different people men women children students
work works life career history part parts members member group groups company companies government state city town village
north south east west northern southern eastern western central upper lower great
no. nos. vs e.g. i.e. etc. ok yes hello hi what's it's that's there's
although unlike aside apart rather whether whatever whoever none nobody nothing everything everyone something someone anyone anything
`

// connectorWords may stand between the capitalised parts of one name.
const connectorWords = `
of de la le du des da do dos das della di del der den von van vom zu zur zum af av för y e bin ibn ben el al & for в на по им. имени
du auf an am im upon sur sous en et und the
`

// splitWords stand behind a hyphen without belonging to the name before it.
const splitWords = `
based born led owned style type wide old year month day week related backed run made built controlled speaking level like century
american british french german russian chinese european inspired themed trained educated winning selling area era time bound
occupied aligned sponsored designed compatible size term elect to by in
`

// abbreviationWords keep their full stop.
const abbreviationWords = `
mr mrs ms dr prof st sr jr inc ltd co corp bros gen col maj capt lt sgt rev hon pres gov sen rep no nos vs etc approx dept univ
jan feb mar apr jun jul aug sep sept oct nov dec mt ft bd llp plc s.a dipl ing nr str ca bzw hr fr ver art abs g ул им стр
mme mlle mm ph.d vol fig ed eds al cf est u.s u.k z.b d.h
`

// languageMarkers maps frequent words to the language that they are typical of.
func languageMarkers() map[string]string {
	markers := map[string]string{}
	for language, words := range map[string]string{
		"en": "the and of was were with that is which from this have has it its",
		"de": "der und die das ist mit von wurde nicht eine auch sich dem den einen werden zum zur im für",
		"fr": "les des une est dans pour qui sur avec par aux cette été du et",
		"es": "los las una que por con para del fue está",
		"nl": "het een van voor niet werd zijn wordt",
		"ru": "и не что на был это как для по из",
	} {
		for w := range strings.FieldsSeq(words) {
			markers[w] = language
		}
	}
	return markers
}
