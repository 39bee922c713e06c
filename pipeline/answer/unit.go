package answer

// unit reads an entity or a relationship, spells its keys as extractions do,
// and returns what it has. A value that is no object is written as it is.
func (s *scanner) unit(depth int) (fields, error) {
	s.unknown = nil
	if !s.startsWith("{") {
		return 0, s.value(depth)
	}
	s.values++
	var set fields
	s.out = append(s.out, '{')
	first := true
	err := s.members(depth, func(key []byte) error {
		if !first {
			s.out = append(s.out, ',')
		}
		first = false
		s.out = append(append(s.out, s.spelled(key, &set)...), ':')
		return s.value(depth + 1)
	})
	s.out = append(s.out, '}')
	return set, err
}

// spelled returns a key as extractions spell it and remembers it; unknown keys,
// and a second spelling of one that was there, stay as they are.
func (s *scanner) spelled(key []byte, set *fields) []byte {
	name, bit := field(key[1 : len(key)-1])
	if bit == 0 {
		if len(s.unknown) < maxNamed {
			s.unknown = append(s.unknown, shown(string(key)))
		}
		return key
	}
	seen := *set&bit != 0
	*set |= bit
	if seen || string(key[1:len(key)-1]) == name {
		return key
	}
	s.repaired("keys were spelled as the schema has them")
	s.key = append(append(append(s.key[:0], '"'), name...), '"')
	return s.key
}
