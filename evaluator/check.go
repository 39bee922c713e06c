package evaluator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"extraction-experiment/internal/proc"
)

// checkTime bounds the one request of Check.
const checkTime = 10 * time.Second

// Check says whether the evaluator is there, before anything is paid for: that
// the program can be found and so can the file that an interpreter is to run;
// that the address answers a HEAD, whatever its status but 401 and 403. It starts
// no program and asks no model: whether those work, the first case tells. The
// error is a *Fault that is Unavailable, or that of ctx.
func (e *Evaluator) Check(ctx context.Context) error {
	switch {
	case len(e.cfg.Script) > 0:
		return e.checkScript()
	case e.cfg.URL != "":
		return e.checkAddress(ctx)
	}
	return nil
}

// interpreters run the file that is their first argument.
var interpreters = regexp.MustCompile(`^(python|pypy|node|ruby|perl|php|Rscript|bash|dash|zsh|sh)[0-9.]*(\.exe)?$`)

func (e *Evaluator) checkScript() error {
	if err := proc.Find(proc.Config{Command: e.cfg.Script, Dir: e.cfg.Dir}); err != nil {
		return ofProgram(err)
	}
	words := e.cfg.Script
	if len(words) < 2 || strings.HasPrefix(words[1], "-") || !interpreters.MatchString(filepath.Base(words[0])) {
		return nil
	}
	path := words[1]
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.cfg.Dir, path)
	}
	if _, err := os.Stat(path); err != nil {
		return &Fault{NotStarted, fmt.Sprintf("%s is to run %s, which cannot be opened: %v", words[0], words[1], err), err}
	}
	return nil
}

func (e *Evaluator) checkAddress(ctx context.Context) error {
	inner, cancel := context.WithTimeout(ctx, min(checkTime, e.cfg.Timeout))
	defer cancel()
	a := newAddress(e.cfg, e.mask)
	resp, err := a.send(inner, http.MethodHead, nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return e.notAnswered(a.unreachable(ctx, err))
	}
	defer resp.Body.Close() // nothing is read
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return e.notAnswered(a.refused(resp, nil))
	}
	return nil
}
