package site

import (
	"context"
	"errors"
	"io"
	"net/http"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
)

// badRequest is an address that makes no sense.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// ExitCode is that of wrong usage.
func (badRequest) ExitCode() int { return cli.ExitUsage }

// write answers with a page, when it is its turn.
func (s *site) write(w http.ResponseWriter, r *http.Request, page func(context.Context, io.Writer) error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-r.Context().Done():
		return
	}
	out := &answer{to: w}
	err := page(r.Context(), out)
	switch {
	case err != nil && !out.begun:
		refuse(w, err)
	case err != nil:
		panic(http.ErrAbortHandler) // the page is cut off: so is the connection
	case !out.begun:
		out.begin()
	}
}

// answer sends the header with the first byte of a page.
type answer struct {
	to    http.ResponseWriter
	begun bool
}

func (a *answer) begin() {
	a.to.Header().Set("Content-Type", "text/html; charset=utf-8")
	a.begun = true
}

func (a *answer) Write(p []byte) (int, error) {
	if !a.begun {
		a.begin()
	}
	return a.to.Write(p)
}

// refuse says in plain text why there is no page.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var coded interface{ ExitCode() int }
	var missing NotFoundError
	switch {
	case errors.As(err, &missing):
		status = http.StatusNotFound
	case errors.As(err, &coded) && coded.ExitCode() == cli.ExitUsage:
		status = http.StatusBadRequest
	}
	text := printable.Block(err.Error())
	if len(text) > 4<<10 {
		text = text[:4<<10]
	}
	http.Error(w, text, status)
}
