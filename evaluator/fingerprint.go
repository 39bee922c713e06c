package evaluator

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Fingerprint names what is asked: sha256 over the words of Command, the
// content of those words of a script that are files (relative to Config.Dir),
// and the text of a judge's prompt, as 64 hex digits. It changes when the
// evaluator's own file is edited, and does not see what that file imports nor
// what changes behind an address. Errors are those of reading a file.
func (e *Evaluator) Fingerprint() (string, error) {
	h := sha256.New()
	for _, word := range e.Command() {
		fmt.Fprintf(h, "%d:%s\n", len(word), word)
	}
	if e.cfg.Model != nil {
		fmt.Fprintf(h, "prompt %s\n", e.cfg.Prompt.SHA256())
	}
	for _, word := range e.cfg.Script {
		if err := e.addFile(h, word); err != nil {
			return "", fmt.Errorf("taking the fingerprint of the evaluator: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// addFile adds the digest of a file of the evaluator; a word that is none adds
// nothing.
func (e *Evaluator) addFile(h io.Writer, word string) (err error) {
	path := word
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.cfg.Dir, path)
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil // an option, or a program of the PATH
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return err
	}
	fmt.Fprintf(h, "file %x\n", digest.Sum(nil))
	return nil
}
