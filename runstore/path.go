package runstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Extension ends the name of every run file.
const Extension = ".run"

const (
	runsFolder   = "runs"
	maxPlain     = 80 // bytes of a name that is kept as it is
	maxReadable  = 60 // bytes of the readable part of a name that is not
	hashedSuffix = 16 // hex digits of sha256 behind the readable part
)

// Path returns where the run of that name belongs:
// dir/runs/<project>/<dataset>/<name>.run.
//
// A name of lower-case ASCII letters, digits, '.', '_' and '-' that begins
// with a letter or digit, does not end in '.', is at most 80 bytes long and is
// not reserved on Windows stands there unchanged. Any other becomes its letters
// and digits in lower case, '-' for the rest, then '~' and 16 hex digits of its
// sha256: readable, the same every time, never outside dir, and different for
// names that differ only in case. The empty name is "_".
func Path(dir, project, dataset, name string) string {
	return filepath.Join(dir, runsFolder, safeName(project), safeName(dataset), safeName(name)+Extension)
}

func safeName(name string) string {
	if name == "" {
		return "_"
	}
	if isPlain(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return readable(name) + "~" + hex.EncodeToString(sum[:])[:hashedSuffix]
}

func isPlain(name string) bool {
	if len(name) > maxPlain || strings.HasSuffix(name, ".") || isReserved(name) {
		return false
	}
	for i, c := range []byte(name) {
		alphanumeric := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// isReserved reports whether Windows takes the name for a device, whatever
// follows the first dot.
func isReserved(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	port, isPort := strings.CutPrefix(stem, "com")
	if !isPort {
		port, isPort = strings.CutPrefix(stem, "lpt")
	}
	return isPort && len(port) == 1 && port[0] >= '0' && port[0] <= '9'
}

func readable(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = '-'
		}
		if b.Len()+utf8.RuneLen(r) > maxReadable {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// makeFolder creates the folder of a run file, for its owner only: documents
// and answers lie in it. If the path is of the form that Path returns, the
// folder given to Path gets a .gitignore that keeps all of it out of git.
func makeFolder(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	runs := filepath.Dir(filepath.Dir(filepath.Dir(path)))
	if filepath.Base(runs) != runsFolder {
		return nil
	}
	ignore := filepath.Join(filepath.Dir(runs), ".gitignore")
	f, err := os.OpenFile(ignore, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}
