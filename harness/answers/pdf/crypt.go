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

// crypt decrypts streams. It does not decrypt strings, because all strings that matter for text
// are inside streams.
type crypt struct {
	key                            []byte
	method                         Name // V2 (RC4), AESV2 or AESV3; streams with another method are not encrypted
	encryptsMetadata               bool // metadata is encrypted too
	revision, size                 int  // size of a key of RC4 or AES-128, in bytes
	permissions                    uint32
	id                             []byte // of the file
	user, owner, userKey, ownerKey []byte // entries U, O, UE and OE
}

// prepareCrypt derives the key from the password of the user or owner, or else from the empty
// password. The error is the reason why the file cannot be decrypted.
func (f *File) prepareCrypt() error {
	if f.trailer["Encrypt"] == nil {
		return nil
	}
	d := f.Dict(f.trailer["Encrypt"])
	text := func(o Object) []byte { return []byte(resolveAs[String](f, o)) }
	version, revision := f.Int(d["V"]), f.Int(d["R"])
	c := &crypt{
		revision: revision, size: 5, permissions: uint32(f.Int(d["P"])),
		encryptsMetadata: f.Resolve(d["EncryptMetadata"]) != false,
		user:             text(d["U"]), owner: text(d["O"]), userKey: text(d["UE"]), ownerKey: text(d["OE"]),
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
	if f.Name(d["Filter"]) != "Standard" || version < 1 || version > 5 || version == 3 {
		return ErrUnsupportedEncryption
	}
	for _, password := range []string{f.opt.Password, ""} {
		if version == 5 {
			c.key = c.key256([]byte(password))
		} else if c.key = c.key128(password); c.key == nil {
			c.key = c.key128(c.userPassword(password))
		}
		if c.key != nil {
			f.crypt = c
			return nil
		}
	}
	if f.opt.Password != "" {
		return ErrWrongPassword
	}
	return ErrPassword
}

const padding = "\x28\xBF\x4E\x5E\x4E\x75\x8A\x41\x64\x00\x4E\x56\xFF\xFA\x01\x08" +
	"\x2E\x2E\x00\xB6\xD0\x68\x3E\x80\x2F\x0C\xA9\xFE\x64\x53\x69\x7A"

// stretchKey hashes a key 50 times, from revision 3 on.
func (c *crypt) stretchKey(key []byte) []byte {
	for range 50 {
		if c.revision >= 3 {
			sum := md5.Sum(key[:c.size])
			key = sum[:]
		}
	}
	return key[:c.size]
}

// userPassword implements algorithm 7 of ISO 32000-1: it returns the padded password of the user
// if owner is the password of the owner.
func (c *crypt) userPassword(owner string) string {
	sum := md5.Sum([]byte((owner + padding)[:32]))
	return string(c.rc4Rounds(c.stretchKey(sum[:]), c.owner[:min(32, len(c.owner))]))
}

// key128 implements algorithm 2 of ISO 32000-1 with the check of algorithms 4 and 5. It returns
// nil if password is not the password of the user.
func (c *crypt) key128(password string) []byte {
	h := md5.New()
	h.Write([]byte((password + padding)[:32]))
	h.Write(c.owner[:min(32, len(c.owner))])
	h.Write(binary.LittleEndian.AppendUint32(nil, c.permissions))
	h.Write(c.id)
	if c.revision >= 4 && !c.encryptsMetadata {
		h.Write([]byte{255, 255, 255, 255})
	}
	key := c.stretchKey(h.Sum(nil))
	check := []byte(padding)
	if c.revision != 2 {
		sum := md5.Sum(append(check, c.id...))
		check = sum[:]
	}
	if !bytes.HasPrefix(c.user, c.rc4Rounds(key, check)) {
		return nil
	}
	return key
}

// rc4Rounds applies RC4 20 times, each time with the key combined with the number of the round,
// or once for revision 2. It encrypts and decrypts, because RC4 is an exclusive or.
func (c *crypt) rc4Rounds(key, data []byte) []byte {
	rounds := 20
	if c.revision == 2 {
		rounds = 1
	}
	for round := range rounds {
		roundKey := bytes.Clone(key)
		for i := range roundKey {
			roundKey[i] ^= byte(round)
		}
		data = applyRC4(roundKey, data)
	}
	return data
}

func applyRC4(key, data []byte) []byte {
	c, _ := rc4.NewCipher(key) // keys have 5 to 16 bytes
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
	switch c.method {
	case "V2":
		return applyRC4(objectKey(""), data)
	case "AESV2":
		return decryptCBC(objectKey("sAlT"), data)
	case "AESV3":
		return decryptCBC(c.key, data)
	}
	return data
}

// decryptCBC decrypts AES in CBC mode with a leading initialisation vector, and removes the
// padding.
func decryptCBC(key, data []byte) []byte {
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

// key256 implements algorithm 2.A of ISO 32000-2, and for revision 5 Adobe's extension level 3.
// It returns nil if password is neither the user's nor the owner's.
func (c *crypt) key256(password []byte) []byte {
	password = password[:min(len(password), 127)]
	hashFunc := hash6
	if c.revision == 5 {
		hashFunc = hash5
	}
	if len(c.user) < 48 {
		return nil
	}
	for _, role := range []struct {
		check, encrypted []byte
		user             []byte // also part of the hash for the owner
	}{{c.user, c.userKey, nil}, {c.owner, c.ownerKey, c.user[:48]}} {
		if len(role.check) < 48 || len(role.encrypted) < 32 || !bytes.Equal(hashFunc(password, role.check[32:40], role.user), role.check[:32]) {
			continue
		}
		block, _ := aes.NewCipher(hashFunc(password, role.check[40:48], role.user)) // hashes have 32 bytes
		key := make([]byte, 32)
		cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, role.encrypted[:32])
		return key
	}
	return nil
}

func hash5(password, salt, user []byte) []byte {
	sum := sha256.Sum256(slices.Concat(password, salt, user))
	return sum[:]
}

// hash6 implements algorithm 2.B: at least 64 rounds, until the last byte allows the end, at the
// latest in round 288.
func hash6(password, salt, user []byte) []byte {
	key := hash5(password, salt, user)
	for round := 0; ; round++ {
		text := bytes.Repeat(slices.Concat(password, key, user), 64)
		block, _ := aes.NewCipher(key[:16])
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
