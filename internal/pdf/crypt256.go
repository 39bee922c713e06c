package pdf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/sha512"
)

// key256 is algorithm 2.A of ISO 32000-2 for the password of a user, and for
// revision 5 the hash of Adobe's extension level 3; nil where the password is
// wrong.
func (f *File) key256(d Dict, password string, revision int) []byte {
	u, _ := f.Resolve(d["U"]).(String)
	ue, _ := f.Resolve(d["UE"]).(String)
	if len(u) < 48 || len(ue) < 32 {
		return nil
	}
	secret := []byte(password)
	secret = secret[:min(len(secret), 127)]
	hash := hash6
	if revision == 5 {
		hash = hash5
	}
	if !bytes.Equal(hash(secret, []byte(u[32:40])), []byte(u[:32])) {
		return nil
	}
	block, err := aes.NewCipher(hash(secret, []byte(u[40:48])))
	if err != nil {
		return nil
	}
	key := make([]byte, 32)
	cipher.NewCBCDecrypter(block, make([]byte, aes.BlockSize)).CryptBlocks(key, []byte(ue[:32]))
	return key
}

func hash5(password, salt []byte) []byte {
	sum := sha256.Sum256(append(bytes.Clone(password), salt...))
	return sum[:]
}

// hash6 is algorithm 2.B: at least 64 rounds, on until the last byte allows
// the end, which is certain to come by round 288.
func hash6(password, salt []byte) []byte {
	key := hash5(password, salt)
	for round := 0; ; round++ {
		text := bytes.Repeat(append(bytes.Clone(password), key...), 64)
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
