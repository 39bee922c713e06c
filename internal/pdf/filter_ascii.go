package pdf

// un85 decodes ASCII base 85; what is no digit of it is passed over.
func un85(data []byte) []byte {
	var out []byte
	var group [5]byte
	n := 0
	flush := func(n int) {
		for i := n; i < 5; i++ {
			group[i] = 84
		}
		v := uint32(0)
		for _, d := range group {
			v = v*85 + uint32(d)
		}
		four := []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
		out = append(out, four[:n-1]...)
	}
	for _, c := range data {
		switch {
		case c == '~':
			if n > 1 {
				flush(n)
			}
			return out
		case c == 'z' && n == 0:
			out = append(out, 0, 0, 0, 0)
		case c >= '!' && c <= 'u':
			group[n] = c - '!'
			if n++; n == 5 {
				flush(5)
				n = 0
			}
		}
	}
	if n > 1 {
		flush(n)
	}
	return out
}

func unRunLength(data []byte, limit int64) ([]byte, error) {
	var out []byte
	for len(data) > 0 && data[0] != 128 {
		n := int(data[0])
		data = data[1:]
		if n < 128 {
			n = min(n+1, len(data))
			out = append(out, data[:n]...)
			data = data[n:]
		} else if len(data) > 0 {
			for range 257 - n {
				out = append(out, data[0])
			}
			data = data[1:]
		}
		if int64(len(out)) > limit {
			return nil, tooLong(limit)
		}
	}
	return out, nil
}

// unLZW decodes the variant of LZW that PDF shares with TIFF: codes of 9 to 12
// bits, most significant bit first; early widens them one code too soon.
func unLZW(data []byte, early bool, limit int64) ([]byte, error) {
	const clear, end, most = 256, 257, 4096
	var out []byte
	var prefix [most]int16
	var suffix [most]byte
	next, width, previous := 258, 9, -1
	shift := 0
	if early {
		shift = 1
	}
	bits, have := uint32(0), 0
	var word []byte
	for {
		for have < width {
			if len(data) == 0 {
				return out, nil
			}
			bits, have = bits<<8|uint32(data[0]), have+8
			data = data[1:]
		}
		code := int(bits >> (have - width) & (1<<width - 1))
		have -= width
		switch {
		case code == clear:
			next, width, previous = 258, 9, -1
			continue
		case code == end:
			return out, nil
		case code > next || code == next && previous < 0 || code >= 256 && code < 258:
			return out, nil // damaged: what there is
		}
		from := code
		if code == next {
			from = previous
		}
		word = word[:0]
		for from >= 258 {
			word = append(word, suffix[from])
			from = int(prefix[from])
		}
		first := byte(from)
		word = append(word, first)
		for i := len(word) - 1; i >= 0; i-- {
			out = append(out, word[i])
		}
		if code == next {
			out = append(out, first)
		}
		if previous >= 0 && next < most {
			prefix[next], suffix[next] = int16(previous), first
			next++
		}
		if next+shift >= 1<<width && width < 12 {
			width++
		}
		previous = code
		if int64(len(out)) > limit {
			return nil, tooLong(limit)
		}
	}
}
