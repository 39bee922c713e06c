package embedded

import (
	"crypto/subtle"
	"net/http"
	"strings"
)

// authorise lets a request through or says 401 the way Langfuse does: the
// ingestion and prompt routes add the error's class to the message.
func (s *Server) authorise(r *http.Request, rt route) error {
	if rt.access == anyone {
		return nil
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return unauthorised(rt, "No authorization header")
	}
	if token, isBearer := strings.CutPrefix(header, "Bearer "); isBearer {
		return s.authoriseBearer(rt, token)
	}
	public, secret, isBasic := r.BasicAuth()
	if !isBasic {
		return unauthorised(rt, "Invalid authorization header")
	}
	if !same(public, s.cfg.PublicKey) || !same(secret, s.cfg.SecretKey) {
		return unauthorised(rt, "Invalid credentials. Confirm that you've configured the correct host.")
	}
	return nil
}

func (s *Server) authoriseBearer(rt route, token string) error {
	if !same(token, s.cfg.PublicKey) {
		return unauthorised(rt, "Invalid public key. Confirm that you've configured the correct host.")
	}
	if rt.access != publicKey {
		return &fault{status: http.StatusForbidden,
			body: object{"message": "Access denied - need to use basic auth with secret key"}}
	}
	return nil
}

func unauthorised(rt route, message string) error {
	body := object{"message": message}
	if strings.HasSuffix(rt.pattern, "/ingestion") || strings.Contains(rt.pattern, "/prompts") {
		body["error"] = "UnauthorizedError"
	}
	return &fault{status: http.StatusUnauthorized, body: body}
}

func same(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
