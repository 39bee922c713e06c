package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/md5"
	"crypto/rc4"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"hash"
	"slices"
)

// crypt decrypts streams. Strings are not: those that pages are read by are in streams.
type crypt struct {
	key                            []byte
	method                         Name // how they are encrypted: V2 is RC4, AESV2 and AESV3; others are not
	metadata                       bool // metadata is encrypted, too
	revision, size                 int  // size is that of a key of RC4 or AES-128, in bytes
	permissions                    uint32
	id                             []byte // of the file
	user, owner, userKey, ownerKey []byte // the entries U, O, UE and OE
}

// prepareCrypt finds the key by the password, which is that of the user or the
// owner, else by none.
func (f *File) prepareCrypt() {
	if f.trailer["Encrypt"] == nil {
		return
	}
	d := f.Dict(f.trailer["Encrypt"])
	text := func(o Object) []byte { return []byte(resolved[String](f, o)) }
	version, revision := f.Int(d["V"]), f.Int(d["R"])
	c := &crypt{
		revision: revision, size: 5, permissions: uint32(f.Int(d["P"])), metadata: f.Resolve(d["EncryptMetadata"]) != false,
		user: text(d["U"]), owner: text(d["O"]), userKey: text(d["UE"]), ownerKey: text(d["OE"]),
	}
	if ids := f.Array(f.trailer["ID"]); len(ids) > 0 {
		c.id = text(ids[0])
	}
	if bits := f.Int(d["Length"]); revision >= 3 && bits >= 40 && bits <= 128 {
		c.size = bits / 8
	} else if revision >= 4 {
		c.size = 16
	}
	if c.method = "V2"; version >= 4 {
		c.method = f.Name(f.Dict(f.Dict(d["CF"])[f.Name(d["StmF"])])["CFM"])
	}
	f.crypt = c
	if f.Name(d["Filter"]) != "Standard" || version < 1 || version > 5 || version == 3 {
		f.locked = ErrCipher
		return
	}
	for _, password := range []string{f.opt.Password, ""} {
		if c.open(password, version); c.key != nil {
			return
		}
	}
	if f.locked = ErrPassword; f.opt.Password != "" {
		f.locked = ErrWrong
	}
}

// open makes the key of a password; nil where it is neither the user's nor the owner's.
func (c *crypt) open(password string, version int) {
	if version == 5 {
		c.key = c.key256([]byte(password))
	} else if c.key = c.key128(password); c.key == nil {
		c.key = c.key128(c.userPassword(password))
	}
}

const pad = "\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08" +
	"\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A"

// stretched hashes a hash 50 times more, from revision 3 on.
func (c *crypt) stretched(key []byte) []byte {
	for range 50 {
		if c.revision >= 3 {
			sum := md5.Sum(key[:c.size])
			key = sum[:]
		}
	}
	return key[:c.size]
}

// userPassword is algorithm 7 of ISO 32000-1: the padded password of the user, if
// that of the owner is right.
func (c *crypt) userPassword(owner string) string {
	sum := md5.Sum([]byte((owner + pad)[:32]))
	return string(c.rc4Turned(c.stretched(sum[:]), c.owner[:min(32, len(c.owner))]))
}

// key128 is algorithm 2 of ISO 32000-1 with the check of algorithms 4 and 5;
// nil where the password of the user is wrong.
func (c *crypt) key128(password string) []byte {
	h := md5.New()
	h.Write([]byte((password + pad)[:32]))
	h.Write(c.owner[:min(32, len(c.owner))])
	h.Write(binary.LittleEndian.AppendUint32(nil, c.permissions))
	h.Write(c.id)
	if c.revision >= 4 && !c.metadata {
		h.Write([]byte{255, 255, 255, 255})
	}
	key := c.stretched(h.Sum(nil))
	check := []byte(pad)
	if c.revision != 2 {
		sum := md5.Sum(append(check, c.id...))
		check = sum[:]
	}
	if !bytes.HasPrefix(c.user, c.rc4Turned(key, check)) {
		return nil
	}
	return key
}

// rc4Turned encrypts 20 times with the key turned by a number, once for revision 2. As
// RC4 is an exclusive or, to decrypt is the same.
func (c *crypt) rc4Turned(key, data []byte) []byte {
	turns := 20
	if c.revision == 2 {
		turns = 1
	}
	for turn := range turns {
		turned := bytes.Clone(key)
		for i := range turned {
			turned[i] ^= byte(turn)
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

func (c *crypt) decrypt(ref Ref, data []byte) []byte {
	objectKey := func(salt string) []byte {
		number := []byte{byte(ref.Num), byte(ref.Num >> 8), byte(ref.Num >> 16), byte(ref.Gen), byte(ref.Gen >> 8)}
		sum := md5.Sum(slices.Concat(c.key, number, []byte(salt)))
		return sum[:min(16, len(c.key)+5)]
	}
	switch {
	case c.key == nil:
		return data
	case c.method == "V2":
		return rc4Of(objectKey(""), data)
	case c.method == "AESV2":
		return unCBC(objectKey("sAlT"), data)
	case c.method == "AESV3":
		return unCBC(c.key, data)
	}
	return data
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
func (c *crypt) key256(password []byte) []byte {
	password = password[:min(len(password), 127)]
	hashed := hash6
	if c.revision == 5 {
		hashed = hash5
	}
	if len(c.user) < 48 {
		return nil
	}
	for _, of := range []struct {
		check, encrypted []byte
		user             []byte // what the hash of the owner's has beside
	}{{c.user, c.userKey, nil}, {c.owner, c.ownerKey, c.user[:48]}} {
		if len(of.check) < 48 || len(of.encrypted) < 32 || !bytes.Equal(hashed(password, of.check[32:40], of.user), of.check[:32]) {
			continue
		}
		block, err := aes.NewCipher(hashed(password, of.check[40:48], of.user))
		if err != nil {
			return nil
		}
		key := make([]byte, 32)
		cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, of.encrypted[:32])
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
