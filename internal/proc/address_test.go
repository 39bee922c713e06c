package proc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"extraction-experiment/internal/secret"
)

func TestAddress(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer s3cr3t-token" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v %v", body, r.Header, err)
		}
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/flood":
			io.WriteString(w, strings.Repeat("x", 101))
		case "/cut":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		case "/closed":
			http.Error(w, "s3cr3t-token is old", http.StatusForbidden)
		case "/none":
			http.NotFound(w, r)
		default:
			w.Write(body)
		}
	}))
	defer s.Close()
	for path, want := range map[string]string{
		"/echo": `{"a":1}`, "/flood": "flooded", "/cut": "the answer was cut off: unexpected EOF",
		"/moved":  "answered 302 Found (redirects are not followed: give the address that it leads to)",
		"/closed": "answered 403 Forbidden (check the token): *** is old", "/none": "(check the address: it must take POST): 404 page not found",
	} {
		a, err := NewAddress(AddressConfig{URL: s.URL + path + "?key=hidden", Token: "s3cr3t-token", MaxAnswer: 100})
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Ask(t.Context(), http.MethodPost, []byte(`{"a":1}`))
		got := string(r.Body)
		switch {
		case err != nil:
			got = err.Error()
		case !r.OK():
			got = a.Refusal(r, "")
		case r.Flooded:
			got = "flooded"
		}
		if !strings.Contains(got, want) || strings.Contains(got, "hidden") || !a.Reached() {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNewAddress_token checks that a token that no header can have is refused before anything is sent.
func TestNewAddress_token(t *testing.T) {
	_, err := NewAddress(AddressConfig{URL: "http://127.0.0.1", Token: "s3cr3t\n"})
	if err == nil || !strings.Contains(err.Error(), "the token in the environment") || strings.Contains(err.Error(), "s3cr3t") {
		t.Error(err)
	}
}

// TestAddress_headers checks that headers are sent, also Host, which Go sends from another place.
func TestAddress_headers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host+" "+r.Header.Get("X-Team"))
	}))
	defer s.Close()
	headers := map[string]secret.Secret{"X-Team": secret.New("a"), "Host": secret.New("models.internal")}
	a, err := NewAddress(AddressConfig{URL: s.URL, Headers: headers, MaxAnswer: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if r, err := a.Ask(t.Context(), http.MethodPost, nil); string(r.Body) != "models.internal a" || err != nil {
		t.Errorf("%s, %v", r.Body, err)
	}
}

func TestAddress_unreached(t *testing.T) {
	a, err := NewAddress(AddressConfig{URL: "http://127.0.0.1:1/?key=hidden", MaxAnswer: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Ask(t.Context(), http.MethodPost, nil); err == nil || a.Reached() || strings.Contains(err.Error(), "hidden") {
		t.Errorf("met %v, %v", a.Reached(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Ask(ctx, http.MethodPost, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for address, want := range map[string]string{
		"http://a:b@host/": "holds a password", "ftp://host": "must be an address", "http:///x": "and a host", "http://ho st/": "cannot be read",
		"": "must be an address", "host/x": "must be an address with http://",
	} {
		if _, err := NewAddress(AddressConfig{URL: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
