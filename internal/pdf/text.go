package pdf

// literal reads a string in parentheses, the first of which was read.
func (l *Lexer) literal() String {
	var b []byte
	for depth := 1; l.pos < len(l.data); l.pos++ {
		switch c := l.data[l.pos]; c {
		case '(':
			depth++
			b = append(b, c)
		case ')':
			if depth--; depth == 0 {
				l.pos++
				return String(b)
			}
			b = append(b, c)
		case '\\':
			b = l.escape(b)
		case '\r':
			if l.pos+1 < len(l.data) && l.data[l.pos+1] == '\n' {
				l.pos++
			}
			b = append(b, '\n')
		default:
			b = append(b, c)
		}
	}
	return String(b)
}

// escape reads what a backslash stands before, and leaves pos on its last byte.
func (l *Lexer) escape(b []byte) []byte {
	l.pos++
	if l.pos >= len(l.data) {
		return b
	}
	switch c := l.data[l.pos]; c {
	case 'n':
		return append(b, '\n')
	case 'r':
		return append(b, '\r')
	case 't':
		return append(b, '\t')
	case 'b':
		return append(b, '\b')
	case 'f':
		return append(b, '\f')
	case '\r':
		if l.pos+1 < len(l.data) && l.data[l.pos+1] == '\n' {
			l.pos++
		}
		return b
	case '\n':
		return b
	case '0', '1', '2', '3', '4', '5', '6', '7':
		code := 0
		for n := 0; n < 3 && l.pos < len(l.data) && l.data[l.pos] >= '0' && l.data[l.pos] <= '7'; n++ {
			code = code<<3 | int(l.data[l.pos]-'0')
			l.pos++
		}
		l.pos--
		return append(b, byte(code))
	default:
		return append(b, c)
	}
}

// hex reads a string in angle brackets, the first of which was read.
func (l *Lexer) hex() String {
	var b []byte
	high := -1
	for ; l.pos < len(l.data); l.pos++ {
		c := l.data[l.pos]
		if c == '>' {
			l.pos++
			break
		}
		digit := hexDigit(c)
		switch {
		case digit < 0:
		case high < 0:
			high = digit
		default:
			b = append(b, byte(high<<4|digit))
			high = -1
		}
	}
	if high >= 0 {
		b = append(b, byte(high<<4))
	}
	return String(b)
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
