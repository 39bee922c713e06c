package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/sha512"
	"slices"
)

// key256 is algorithm 2.A of ISO 32000-2, and for revision 5 the hash of Adobe's
// extension level 3; nil where the password is neither the user's nor the owner's.
func (f *File) key256(d Dict, password string, revision int) []byte {
	secret := []byte(password)
	secret = secret[:min(len(secret), 127)]
	hash := hash6
	if revision == 5 {
		hash = hash5
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
		if len(check) < 48 || len(encrypted) < 32 || !bytes.Equal(hash(secret, check[32:40], of.user), check[:32]) {
			continue
		}
		block, err := aes.NewCipher(hash(secret, check[40:48], of.user))
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
		switch rest % 3 {
		case 0:
			sum := sha256.Sum256(text)
			key = sum[:]
		case 1:
			sum := sha512.Sum384(text)
			key = sum[:]
		case 2:
			sum := sha512.Sum512(text)
			key = sum[:]
		}
		if round >= 63 && int(text[len(text)-1]) <= round-31 {
			return key[:32]
		}
	}
}
