package baseline

// familyConcepts are relations of one person to another.
func familyConcepts() []concept {
	return []concept{
		{
			names:   "married to, married, spouse, spouse of, husband of, wife of, verheiratet mit, женат, замужем, marié à, épouse de, 配偶, متزوج",
			phrases: "married, married to, wed, marriage to, heiratete, verheiratet mit, женился на, женат на, вышла замуж за, замужем за, épousa, épouse, épousé, marié à, mariée à, 嫁给, 娶了, 结婚, تزوج, تزوجت, متزوج من",
			nouns:   "wife, husband, spouse, widow, widower, ehefrau, ehemann, frau, mann, жена, муж, супруга, супруг, mari, femme, 妻子, 丈夫, زوجة, زوج", symmetric: true,
		},
		{
			names: "child of, son of, daughter of, kind von, sohn, tochter von, ребёнок, сын, дочь, fils de, fille de, parent is, father, mother, 子女, ابن", inverse: "parent of, father of, mother of, has child, child, children, elternteil, parent, 父母",
			nouns: "son, daughter, child, children, sons, daughters, sohn, tochter, kind, сын, дочь, ребёнок, fils, fille, enfant, 儿子, 女儿, ابن, ابنة", backNouns: "father, mother, parent, parents, vater, mutter, отец, мать, père, mère, 父亲, 母亲, والد, والدة", phrases: "born to",
		},
		{
			names: "sibling of, sibling, brother of, sister of, siblings, geschwister, bruder, schwester, брат, сестра, frère de, sœur de, 兄弟, 姐妹, شقيق",
			nouns: "brother, sister, sibling, siblings, brothers, sisters, bruder, schwester, брат, сестра, frère, sœur, 兄弟, 姐妹, 哥哥, 弟弟, 姐姐, 妹妹, شقيق, شقيقة, أخ, أخت", symmetric: true,
		},
		{
			names: "knows, friend of, friends with, acquainted with, knows person", phrases: "friend of, friends with, knows, met, befreundet mit, знаком с, ami de, 认识",
			nouns: "friend, freund, freundin, друг, ami, amie, 朋友, صديق", symmetric: true,
		},
	}
}

// madeConcepts are relations of things to those who made them.
func madeConcepts() []concept {
	return []concept{
		{
			names: "wrote, author of, writes, authored, написал, écrit, schrieb", inverse: "author, written by, screenwriter, writer, lyrics by, автор, auteur, 作者, مؤلف",
			verbs: "wrote, writes, written, penned, authored, co-wrote, schrieb, geschrieben, написал, написала, написан, écrit, écrivit, 撰写, 著, كتب, كتبت",
			nouns: "author, writer, screenwriter, autor, autorin, автор, auteur, 作者, مؤلف",
		},
		{
			names: "directed, director of film, directs", inverse: "directed by, director, film director, режиссёр, réalisateur, 导演",
			verbs: "directed, directs, réalisé, снял, сняла", nouns: "director, regisseur, режиссёр, réalisateur, réalisatrice, 导演",
		},
		{
			names: "notable work, known for work, works by", inverse: "created by, creator, made by, 创作者",
			verbs: "created, creates, wrote, written, painted, composed, designed, invented, directed, conceived, coded, schuf, geschaffen, создал, создала, создан, créa, créé, 创作, 创建",
			nouns: "creator, inventor, schöpfer, создатель, créateur, créatrice, author, designer",
		},
		{
			names: "develops, developed, developer of, designs, designed, 开发, طور", inverse: "developer, developed by, designed by, designer, entwickelt von, разработан, développé par, 开发商",
			verbs: "developed, develops, designed, designs, invented, engineered, entwickelt, entwickelte, разработал, разработала, разработан, développe, développé, conçu, 开发, 研发, 设计, طورت, صممت",
			nouns: "developer, designer, inventor, entwickler, entwicklerin, разработчик, développeur, 开发商",
		},
		{
			names: "produces, manufactures, makes, product or material produced, produced, producer of, stellt her, производит, fabrique, 生产, ينتج, launches, launched, releases, released, sells", inverse: "manufacturer, manufactured by, produced by, producer, made by, built by, 制造商",
			verbs: "manufactured, manufactures, produced, produces, makes, built, builds, launched, launches, unveiled, introduced, sells, stellt her, produziert, выпустила, выпустил, производит, produit, fabrique, lance, lancé, 生产, 推出, 发布, 制造, أطلقت, تنتج",
			nouns: "manufacturer, producer, maker, hersteller, производитель, fabricant, 制造商",
		},
		{
			names: "publishes, published, publisher of", inverse: "publisher, published by, released by",
			verbs: "published, publishes, released, issued, veröffentlichte, veröffentlicht, издал, publie, publié, 出版, نشرت", nouns: "publisher, verlag, éditeur",
		},
		{
			names: "composed, composer of", inverse: "composer, composed by",
			verbs: "composed, composes, komponierte, komponiert, сочинил, composé", nouns: "composer, komponist, композитор, compositeur",
		},
		{
			names: "participant of, participated in, took part in, participates in, attended event, attends", inverse: "participant, participants, attended by",
			phrases: "participated in, participates in, took part in, competed in, fought in, attended, nahm an teil, участвовал в, участвовала в, a participé à, 参加, 参与, 出席, شارك في, شاركت في",
		},
		{
			names: "plays in, starred in, acted in, appears in, present in work", inverse: "cast member, starring, actors",
			phrases: "starred in, stars in, appeared in, appears in, plays in, acted in, character in, role in, spielte in, снялся в, снялась в, joue dans, 主演",
			back:    "starring, stars, starred, featuring, 主演",
		},
		{
			names: "performs, performer of, sang, sings", inverse: "performed by, performer, sung by",
			verbs: "performed, performs, sang, sung, recorded, interpreted",
		},
		{
			names: "part of, contained in, belongs to series, series, component of, teil von, часть, partie de, 属于", inverse: "has part, contains, includes, consists of, comprises",
			phrases: "part of, belongs to, contained in, included in, component of, track on, from the album, section of, teil von, teil der, teil des, часть, входит в, partie de, 属于, جزء من",
			back:    "contains, includes, consists of, comprises, enthält, umfasst, besteht aus, содержит, включает, contient, comprend, 包括, 包含, تشمل, يضم",
		},
		{
			names: "follows, preceded by, successor of, successor to, replaces, replaced predecessor, succeeds, succeeded", inverse: "followed by, precedes, succeeded by, replaced by, predecessor of, predecessor",
			phrases: "follows, succeeded, replaced, replaces, successor to, successor of, sequel to, follow-up to, nachfolger von, сменил, сменила, succède à, remplace, 接替, 取代, خلف", back: "followed by, succeeded by, replaced by, preceded",
		},
		{
			names: "uses, utilizes, used in study, applies, based on, relies on, built on, depends on, requires, runs on, platform, verwendet, использует, utilise, 使用, يستخدم", inverse: "used by, utilized by, applied by, required by",
			verbs: "uses, used, utilizes, relies on, depends on, requires, based on, runs on, powered by, available for, verwendet, nutzt, использует, использовал, utilise, 使用, 采用, يستخدم, تستخدم",
		},
		{
			names: "causes, caused, leads to, results in, triggers, triggered, verursacht, вызывает, provoque, 导致, يسبب", inverse: "caused by, due to, result of, triggered by",
			verbs: "causes, caused, triggered, triggers, led to, resulted in, leads to, verursachte, verursacht, вызвал, вызвала, вызывает, provoqua, provoqué, 导致, 引起, تسبب في, تسببت في",
			back:  "due to, because of, result of",
		},
		{
			names: "signed, party to, signatory of, contracting party, parties", inverse: "signed by, has party, between parties",
			verbs: "signed, signs, entered into, executed, unterzeichnete, unterzeichnet, подписала, подписал, signé, signe, 签署, وقعت, وقع",
		},
	}
}
