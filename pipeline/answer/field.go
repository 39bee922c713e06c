package answer

// fields is a set of the keys that extractions have.
type fields uint32

const (
	fieldEntities fields = 1 << iota
	fieldRelationships
	fieldName
	fieldType
	fieldSourceName
	fieldSource
	fieldSourceRef
	fieldTargetName
	fieldTarget
	fieldTargetRef
	fieldRelationshipType
	fieldID
	fieldTempID
	fieldDescription
	fieldAliases
	fieldProperties
	fieldMentions

	anySource = fieldSourceName | fieldSource | fieldSourceRef
	anyTarget = fieldTargetName | fieldTarget | fieldTargetRef
)

// field returns how a key is spelled that differs in case and separators only
// ("sourceName", "Source-Name"), and its bit; 0 for a key that extractions do not
// have.
func field(key []byte) (string, fields) {
	var folded [32]byte
	n := 0
	for _, c := range key {
		if c == '_' || c == '-' || c == ' ' {
			continue
		}
		if n == len(folded) {
			return "", 0
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		folded[n] = c
		n++
	}
	return canonicalField(string(folded[:n]))
}

func canonicalField(folded string) (string, fields) {
	switch folded {
	case "entities":
		return "entities", fieldEntities
	case "relationships", "relations":
		return "relationships", fieldRelationships
	case "name", "entityname":
		return "name", fieldName
	case "type", "entitytype":
		return "type", fieldType
	case "sourcename":
		return "source_name", fieldSourceName
	case "source":
		return "source", fieldSource
	case "sourceref":
		return "source_ref", fieldSourceRef
	case "targetname":
		return "target_name", fieldTargetName
	case "target":
		return "target", fieldTarget
	case "targetref":
		return "target_ref", fieldTargetRef
	case "relationshiptype", "relationtype":
		return "relationship_type", fieldRelationshipType
	case "id":
		return "id", fieldID
	case "tempid":
		return "temp_id", fieldTempID
	case "description":
		return "description", fieldDescription
	case "aliases":
		return "aliases", fieldAliases
	case "properties":
		return "properties", fieldProperties
	case "mentions":
		return "mentions", fieldMentions
	}
	return "", 0
}
