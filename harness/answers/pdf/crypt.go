package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"slices"
)

// crypt decrypts strings and streams.
type crypt struct {
	key      []byte
	err      error
	strings  Name // how they are encrypted: V2 is RC4, AESV2 and AESV3; others are not
	streams  Name
	metadata bool // metadata is encrypted, too
}

func (f *File) cryptError() error {
	if f.crypt == nil {
		return nil
	}
	return f.crypt.err
}

// prepareCrypt finds the key by the password, which is that of the user or the
// owner, else by none.
func (f *File) prepareCrypt() {
	d := f.Dict(f.trailer["Encrypt"]) // read before there is a key: its strings are plain
	f.crypt = &crypt{metadata: true}
	if v, ok := f.Resolve(d["EncryptMetadata"]).(bool); ok {
		f.crypt.metadata = v
	}
	f.objects, f.packs = map[int]Object{}, map[int]*pack{}
	version, revision := f.Int(d["V"]), f.Int(d["R"])
	if f.Name(d["Filter"]) != "Standard" || version < 1 || version > 5 || version == 3 {
		f.crypt.err = ErrCipher
		return
	}
	f.crypt.strings, f.crypt.streams = f.methodOf(d, "StrF", version), f.methodOf(d, "StmF", version)
	for _, password := range []string{f.opt.Password, ""} {
		if version == 5 {
			f.crypt.key = f.key256(d, password, revision)
		} else if f.crypt.key = f.key128(d, password, revision); f.crypt.key == nil {
			f.crypt.key = f.key128(d, f.userPassword(d, password, revision), revision)
		}
		if f.crypt.key != nil {
			return
		}
	}
	if f.crypt.err = ErrPassword; f.opt.Password != "" {
		f.crypt.err = ErrWrong
	}
}

func (f *File) methodOf(d Dict, which Name, version int) Name {
	if version < 4 {
		return "V2"
	}
	filter := f.Dict(f.Dict(d["CF"])[f.Name(d[which])])
	return f.Name(filter["CFM"])
}

const pad = "\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A"

// textOf is an entry of the dictionary of encryption.
func (f *File) textOf(d Dict, key Name) []byte { return []byte(resolved[String](f, d[key])) }

// keySize is how many bytes a key of RC4 or AES-128 has.
func (f *File) keySize(d Dict, revision int) int {
	if v := f.Int(d["Length"]); revision >= 3 && v >= 40 && v <= 128 {
		return v / 8
	} else if revision >= 4 {
		return 16
	}
	return 5
}

// stretched hashes a hash 50 times more, from revision 3 on.
func stretched(key []byte, size, revision int) []byte {
	for range 50 {
		if revision >= 3 {
			sum := md5.Sum(key[:size])
			key = sum[:]
		}
	}
	return key[:size]
}

// userPassword is algorithm 7 of ISO 32000-1: the padded password of the user, if
// that of the owner is right.
func (f *File) userPassword(d Dict, owner string, revision int) string {
	o := f.textOf(d, "O")
	sum := md5.Sum([]byte((owner + pad)[:32]))
	key := stretched(sum[:], f.keySize(d, revision), revision)
	if revision == 2 {
		return string(rc4Of(key, o[:min(32, len(o))]))
	}
	return string(rc4Turned(key, o[:min(32, len(o))], 19, -1))
}

// key128 is algorithm 2 of ISO 32000-1 with the check of algorithms 4 and 5;
// nil where the password of the user is wrong.
func (f *File) key128(d Dict, password string, revision int) []byte {
	id := []byte{}
	if ids := f.Array(f.trailer["ID"]); len(ids) > 0 {
		id = []byte(resolved[String](f, ids[0]))
	}
	p := uint32(int64(f.Int(d["P"])))
	h := md5.New()
	h.Write([]byte((password + pad)[:32]))
	h.Write(f.textOf(d, "O")[:min(32, len(f.textOf(d, "O")))])
	h.Write([]byte{byte(p), byte(p >> 8), byte(p >> 16), byte(p >> 24)})
	h.Write(id)
	if revision >= 4 && !f.crypt.metadata {
		h.Write([]byte{255, 255, 255, 255})
	}
	key := stretched(h.Sum(nil), f.keySize(d, revision), revision)
	if !bytes.HasPrefix(f.textOf(d, "U"), userCheck(key, id, revision)) {
		return nil
	}
	return key
}

// userCheck is what the entry U must begin with.
func userCheck(key, id []byte, revision int) []byte {
	if revision == 2 {
		return rc4Of(key, []byte(pad))
	}
	sum := md5.Sum(append([]byte(pad), id...))
	return rc4Turned(key, sum[:], 0, 1)
}

// rc4Turned encrypts 20 times with the key turned by a number that goes from first
// in steps.
func rc4Turned(key, data []byte, first, step int) []byte {
	for i := range 20 {
		turned := make([]byte, len(key))
		for j := range key {
			turned[j] = key[j] ^ byte(first+step*i)
		}
		data = rc4Of(turned, data)
	}
	return data
}

func rc4Of(key, data []byte) []byte {
	c, err := rc4.NewCipher(key)
	if err != nil {
		return data
	}
	out := make([]byte, len(data))
	c.XORKeyStream(out, data)
	return out
}

func (c *crypt) decrypt(method Name, ref Ref, data []byte) []byte {
	if c.err != nil || len(c.key) == 0 {
		return data
	}
	switch method {
	case "V2":
		return rc4Of(c.objectKey(ref, ""), data)
	case "AESV2":
		return unCBC(c.objectKey(ref, "sAlT"), data)
	case "AESV3":
		return unCBC(c.key, data)
	}
	return data
}

func (c *crypt) objectKey(ref Ref, salt string) []byte {
	h := md5.New()
	h.Write(c.key)
	h.Write([]byte{byte(ref.Num), byte(ref.Num >> 8), byte(ref.Num >> 16), byte(ref.Gen), byte(ref.Gen >> 8)})
	h.Write([]byte(salt))
	return h.Sum(nil)[:min(16, len(c.key)+5)]
}

// unCBC decrypts AES in CBC mode, the vector in front, and removes the padding.
func unCBC(key, data []byte) []byte {
	block, err := aes.NewCipher(key)
	if err != nil || len(data) < 2*aes.BlockSize {
		return nil
	}
	body := bytes.Clone(data[aes.BlockSize:])
	body = body[:len(body)/aes.BlockSize*aes.BlockSize]
	cipher.NewCBCDecrypter(block, data[:aes.BlockSize]).CryptBlocks(body, body)
	if n := int(body[len(body)-1]); n >= 1 && n <= aes.BlockSize {
		body = body[:len(body)-n]
	}
	return body
}

// key256 is algorithm 2.A of ISO 32000-2, and for revision 5 the hash of Adobe's
// extension level 3; nil where the password is neither the user's nor the owner's.
func (f *File) key256(d Dict, password string, revision int) []byte {
	secret := []byte(password)
	secret = secret[:min(len(secret), 127)]
	hashed := hash6
	if revision == 5 {
		hashed = hash5
	}
	u := f.textOf(d, "U")
	if len(u) < 48 {
		return nil
	}
	for _, of := range []struct {
		check, encrypted Name
		user             []byte // what the hash of the owner's has beside
	}{{"U", "UE", nil}, {"O", "OE", u[:48]}} {
		check, encrypted := f.textOf(d, of.check), f.textOf(d, of.encrypted)
		if len(check) < 48 || len(encrypted) < 32 || !bytes.Equal(hashed(secret, check[32:40], of.user), check[:32]) {
			continue
		}
		block, err := aes.NewCipher(hashed(secret, check[40:48], of.user))
		if err != nil {
			return nil
		}
		key := make([]byte, 32)
		cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, encrypted[:32])
		return key
	}
	return nil
}

func hash5(password, salt, user []byte) []byte {
	sum := sha256.Sum256(slices.Concat(password, salt, user))
	return sum[:]
}

// hash6 is algorithm 2.B: at least 64 rounds, on until the last byte allows
// the end, which is certain to come by round 288.
func hash6(password, salt, user []byte) []byte {
	key := hash5(password, salt, user)
	for round := 0; ; round++ {
		text := bytes.Repeat(slices.Concat(password, key, user), 64)
		block, err := aes.NewCipher(key[:16])
		if err != nil {
			return nil
		}
		cipher.NewCBCEncrypter(block, key[16:32]).CryptBlocks(text, text)
		rest := 0
		for _, c := range text[:16] {
			rest += int(c)
		}
		h := []func() hash.Hash{sha256.New, sha512.New384, sha512.New}[rest%3]()
		h.Write(text)
		key = h.Sum(nil)
		if round >= 63 && int(text[len(text)-1]) <= round-31 {
			return key[:32]
		}
	}
}

// pack is a decoded object stream.
type pack struct {
	data    []byte
	offsets map[int]int
}

// packed reads an object out of an object stream.
func (f *File) packed(in, num int) Object {
	p, ok := f.packs[in]
	if !ok {
		p = f.openPack(in)
		f.packs[in] = p
	}
	at, ok := p.offsets[num]
	if !ok {
		return nil
	}
	l := &Lexer{data: p.data, pos: at}
	o, _ := l.object()
	f.spendOn(l, at)
	return o
}

// openPack decodes an object stream; one that cannot be read is empty.
func (f *File) openPack(num int) *pack {
	p := &pack{offsets: map[int]int{}}
	if e, ok := f.xref[num]; !ok || e.pack != 0 {
		return p // an object stream is never in another one
	}
	s, ok := f.load(Ref{Num: num}).(*Stream)
	if !ok {
		return p
	}
	p.data, _ = f.Decode(s) // what was decoded before an error is used
	first := f.Int(s.Dict["First"])
	l := &Lexer{data: p.data}
	for range f.Int(s.Dict["N"]) {
		id, ok1 := l.int()
		offset, ok2 := l.int()
		if !ok1 || !ok2 || !f.Spend(entryCost) {
			break
		}
		if at := first + clampInt(float64(offset)); at >= 0 && at < len(p.data) {
			p.offsets[int(id)] = at
		}
	}
	return p
}
