package baseline

// placeConcepts are relations of things to places and times.
func placeConcepts() []concept {
	return []concept{
		{
			names:   "located in, location, is in, situated in, country, located, lies in, liegt in, befindet sich, расположен, находится, situé à, 位于, يقع في, headquarters location, headquartered in, based in, headquarters, takes place in, held in, operates in, standort, sitz, headquartered, located at, place",
			inverse: "contains location, location of, headquarters of, site of, includes location",
			phrases: "located in, situated in, based in, headquartered in, headquarters in, lies in, located at, located on, located near, takes place in, held in, office in, offices in, city in, town in, village in, municipality in, river in, district of, city of, capital of, town of, part of, opened in, operates in, liegt in, mit sitz in, sitz in, ansässig in, befindet sich in, stadt in, находится в, расположен в, расположена в, расположено в, штаб-квартира в, город в, situé à, située à, situé en, située en, basé à, basée à, siège à, se trouve à, 位于, 总部位于, 总部设在, 设在, 坐落于, تقع في, يقع في, مقرها في, ومقرها, مقره",
			back:    "capital, home to",
			tight:   "in, in the, im, à, en, في",
			comma:   true,
		},
		{
			names: "capital of, hauptstadt, столица, capitale de, 首都, عاصمة", inverse: "capital, has capital",
			nouns: "capital, hauptstadt, столица, capitale, 首都, عاصمة",
		},
		{
			names: "country of citizenship, citizen of, nationality, citizenship, staatsangehörigkeit, гражданство, nationalité, 国籍, جنسية, country of origin", inverse: "citizens",
			tight: "is a, was a, is an, was an, is the, was the, ist ein, ist eine, war ein, war eine, est un, est une, était un, était une, a, an", phrases: "citizen of, bürger, гражданин, citoyen",
		},
		{
			names: "born in, place of birth, birthplace, birth place, geboren in, родился в, né à, 出生于, ولد في", inverse: "birthplace of, place of birth of",
			phrases: "born in, born at, born on in, native of, was born, born, geboren, geboren in, родился в, родилась в, né à, née à, naquit à, né le à, née le à, 出生于, 生于, 出生在, ولد في, ولدت في", life: birth,
		},
		{
			names: "died in, place of death, death place, gestorben in, умер в, mort à, 逝世于, توفي في", inverse: "place of death of",
			phrases: "died in, died at, died on in, death in, died, killed in, starb in, starb am in, gestorben in, умер в, умерла в, скончался в, mort à, morte à, décédé à, décédée à, 去世于, 逝世于, توفي في, توفيت في", life: death,
		},
		{
			names: "date of birth, born on, birth date, birthday, geburtsdatum, дата рождения, date de naissance, 出生日期, تاريخ الميلاد",
			// The date may stand before or behind the verb.
			phrases: "born, born on, born in, geboren, geboren am, родился, родилась, né le, née le, né en, née en, 出生, 生于, 出生于, ولد في, ولدت في, ولد عام, ولدت عام", life: birth,
		},
		{
			names:   "date of death, died on, death date, todesdatum, дата смерти, date de décès, تاريخ الوفاة",
			phrases: "died, died on, died in, death in, starb, starb am, gestorben, умер, умерла, скончался, mort le, morte le, décédé le, mort en, 去世, 逝世, توفي, توفيت", life: death,
		},
		{
			names: "lived in, lives in, residence, resides in, resident of, wohnt in, живёт в, habite à, 居住, يعيش في", inverse: "residents, inhabited by",
			phrases: "lives in, lived in, resides in, resided in, living in, moved to, settled in, resident of, wohnt in, lebt in, zog nach, lebte in, живёт в, живет в, жил в, жила в, переехал в, переехала в, vit à, habite à, installé à, 居住在, 住在, 定居, يعيش في, تعيش في, يقيم في, انتقل إلى",
		},
		{
			names:   "inception, founded in, founded on, established in, date founded, founding date, foundation date, gegründet am, дата основания, 成立于, founding year",
			phrases: "founded in, founded on, established in, established on, formed in, created in, opened in, incorporated in, launched in, gegründet, gegründet im, основана в, основан в, создана в, fondée en, fondé en, créée en, 成立于, 创立于, 成立, تأسست عام, تأسست في, تأسس في, تأسست سنة",
		},
		{
			names:   "publication date, published on, released on, release date, date published, released in, published in, launched on, launched in",
			phrases: "released in, released on, published in, published on, released, launched in, launched on, issued in, aired on, premiered on, premiered in, veröffentlicht, erschien, вышел в, вышла в, выпущен в, sorti en, publié en, paru en, 发布于, 出版于, 发布, صدر في, صدرت في",
		},
		{
			names:   "point in time, occurred on, happened on, date, effective date, signed on, held on, takes place on, dated, event date, start time, started on, began on",
			phrases: "held on, held in, took place on, took place in, occurred on, dated, effective, signed on, began on, started on, began in, fand am statt, состоялся, состоялась, a eu lieu le, 举行, عقد في, عقدت في",
		},
	}
}
