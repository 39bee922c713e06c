package baseline

// titleWords stand before a person's name and are no part of it.
const titleWords = `
mr mr. mrs mrs. ms ms. miss mister madam dr dr. prof prof. professor sir dame lord lady rev. reverend father saint st. sister brother
gen. general colonel col. major maj. captain capt. lieutenant lt. sergeant sgt. admiral commander marshal sheikh imam rabbi pope
king queen prince princess emperor empress duke duchess count countess baron baroness sultan emir tsar
president chancellor minister secretary senator governor mayor ambassador judge justice chairman chairwoman chairperson director
herr frau herrn doktor präsident präsidentin kanzler kanzlerin minister ministerin bürgermeister bürgermeisterin
m. mme mme. mlle mlle. monsieur madame mademoiselle maître docteur président présidente ministre maire
señor señora don doña dottor dottoressa signor signora dhr. mevrouw
господин госпожа г-н г-жа товарищ доктор профессор президент министр генерал директор академик губернатор
السيد السيدة الدكتور الدكتورة د. الأستاذ الأستاذة المهندس المهندسة الشيخ الأمير الأميرة الملك الملكة الرئيس الوزير اللواء العميد القاضي
`

// roleWords are professions and offices: they describe a person.
const roleWords = `
ceo cfo cto coo founder co-founder cofounder owner president vice-president chairman chairwoman chairperson chair director manager head
secretary treasurer partner principal dean rector minister chancellor senator governor mayor ambassador judge lawyer attorney solicitor
engineer scientist physicist chemist biologist mathematician astronomer economist historian philosopher psychologist sociologist
researcher professor lecturer teacher student doctor physician surgeon nurse architect designer developer programmer analyst consultant
writer author poet novelist playwright screenwriter journalist editor publisher critic reporter translator
painter sculptor artist photographer musician singer songwriter composer conductor pianist violinist guitarist drummer bassist rapper
actor actress comedian filmmaker producer dancer choreographer model
player footballer cricketer swimmer boxer wrestler cyclist athlete coach captain goalkeeper striker midfielder defender pitcher
politician activist diplomat soldier officer general admiral colonel commander king queen emperor bishop priest archbishop monk
entrepreneur businessman businesswoman investor banker inventor explorer astronaut cosmonaut pilot sailor
husband wife son daughter father mother brother sister uncle aunt cousin nephew niece grandson granddaughter
spokesman spokeswoman spokesperson representative employee assistant deputy
geschäftsführer geschäftsführerin vorstand vorsitzender vorsitzende gründer gründerin leiter leiterin chef direktor direktorin
präsident präsidentin ingenieur ingenieurin wissenschaftler schriftsteller maler komponist sprecher sprecherin professorin
directeur directrice fondateur fondatrice présidente ingénieur écrivain peintre compositeur avocat avocate gérant gérante pdg
директор основатель президент председатель глава руководитель инженер учёный писатель поэт художник композитор режиссёр актёр
генеральный сооснователь профессор врач юрист
`

// givenNames are frequent given names of many languages.
const givenNames = `
james john robert michael william david richard joseph thomas charles christopher daniel matthew anthony mark donald steven paul andrew
joshua kenneth kevin brian george edward ronald timothy jason jeffrey ryan jacob gary nicholas eric jonathan stephen larry justin scott
brandon benjamin samuel gregory frank alexander raymond patrick jack dennis jerry tyler aaron jose adam henry nathan douglas zachary
peter kyle walter ethan jeremy harold keith christian roger noah gerald carl terry sean austin arthur lawrence jesse dylan bryan joe
albert alan philip simon martin oliver harry leo max felix hugo oscar edgar ernest francis frederick hugh isaac lewis louis luke neil
mary patricia jennifer linda elizabeth barbara susan jessica sarah karen lisa nancy betty margaret sandra ashley kimberly emily donna
michelle carol amanda dorothy melissa deborah stephanie rebecca sharon laura cynthia kathleen amy angela shirley anna brenda pamela
emma nicole helen samantha katherine christine debra rachel carolyn janet catherine maria heather diane ruth julie olivia joyce
virginia victoria kelly lauren christina joan evelyn judith megan andrea cheryl hannah jacqueline martha gloria teresa ann sara
madison frances kathryn janice jean alice julia sophia grace denise amber doris marilyn danielle beverly isabella theresa diana
natalie charlotte marie eleanor clara eva edith lucy rose jane claire nora ella agnes alma ada
hans klaus jürgen jens wolfgang stefan andreas thomas matthias sebastian florian tobias markus karl heinrich friedrich johann ludwig
otto ernst fritz günter heinz helmut dieter uwe ralf bernd anja katrin sabine ute monika petra ursula ingrid heike birgit silke greta
pierre jean-paul françois michel jacques philippe andré rené louis henri antoine émile gaston luc camille hélène sophie isabelle amélie
juan carlos luis javier miguel jesús pedro alejandro manuel francisco fernando antonio diego pablo sergio rafael enrique carmen lucía
giovanni giuseppe marco luca paolo andrea francesco mario luigi pietro chiara giulia elena
lars erik sven nils anders bjorn björn magnus ingrid astrid freya jan piet johan willem anton
ivan dmitri dmitry sergei sergey vladimir alexei alexey andrei andrey nikolai mikhail boris yuri igor oleg viktor pavel natalia olga tatiana
irina svetlana ekaterina anastasia piotr tomasz jakub zoltan istván
mohammed muhammad mohamed ahmed ali omar hassan hussein ibrahim yusuf khalid abdullah fatima aisha layla zainab mustafa mehmet
wei li ming hiroshi kenji takashi yuki akira satoshi yoko keiko min-jun raj rahul amit anil sanjay vijay priya anita sunita ravi arjun
иван дмитрий сергей владимир алексей андрей николай михаил борис юрий игорь олег виктор павел александр антон максим евгений
наталья ольга татьяна ирина светлана екатерина анастасия анна мария елена людмила галина вера лев пётр петр фёдор григорий константин
محمد أحمد علي عمر حسن حسين إبراهيم يوسف خالد عبد عبدالله فاطمة عائشة ليلى زينب مصطفى محمود سعيد كريم نور سارة مريم طارق سلمان فيصل ناصر
`

// sayingWords are verbs and phrases whose subject is a person or an organisation.
const sayingWords = `
said says told announced stated added explained wrote born died married studied graduated joined resigned retired moved worked
believes argues claims explains noted confirmed agreed asked replied served grew
sagte sagt erklärte studierte heiratete starb geboren arbeitete
déclare déclaré naquit né née mourut épouse travaille
сказал сказала заявил заявила родился родилась умер умерла работает сообщил сообщила учился училась окончил окончила
`

// placingWords are prepositions that often stand before a place.
const placingWords = `in at near from to into across outside throughout around aus nach bei à depuis vers dans в из под около във naar uit`

// workNouns stand before the title of a work.
const workNouns = `
novel book film movie album song single play poem opera musical series show game magazine newspaper journal painting symphony essay
roman buch zeitung zeitschrift lied livre chanson журнал газета книга роман фильм песня альбом
`
