package embedded

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"extraction-experiment/internal/textutil"
)

// remotePatience is how long Langfuse waits for the answer.
const remotePatience = 20 * time.Second

// startRemoteRun answers POST /api/embedded/datasets/{name}/run, which Langfuse has not:
// it presses the Run button of a dataset, which is in Langfuse's user interface. The
// request is sent as Langfuse 4.16 does, to loopback addresses only, and no redirect is
// followed. The answer has the status of what came within 20 s and the beginning of its
// text, which Langfuse shows nobody. Each call sends once.
func (s *Server) startRemoteRun(c *call) (any, error) {
	f := c.form(smallBody)
	address, secret, payload := f.must("url"), f.text("secret"), f.text("payload")
	if err := f.only().err(); err != nil {
		return nil, err
	}
	d, err := datasetByName(s.store.r, c.path("name"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), remotePatience)
	defer cancel()
	request, err := s.remoteRequest(ctx, d, address, secret, payload)
	var answer object
	if err == nil {
		answer, err = press(request)
	}
	if err != nil {
		return nil, invalid("starting a remote run: %s", err)
	}
	return answer, nil
}

// press sends the request, to this machine only, and follows no redirect.
func press(request *http.Request) (object, error) {
	dialer := net.Dialer{Control: loopbackOnly}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return object{"status": response.StatusCode, "answer": string(text)}, errors.Join(err, response.Body.Close())
}

// remoteRequest makes the request, the keys in Langfuse's order. A secret signs it, and
// payload is the text of the Config box.
func (s *Server) remoteRequest(ctx context.Context, d dataset, url, secret, payload string) (*http.Request, error) {
	body, err := textutil.MarshalJSON(struct {
		ProjectID   string `json:"projectId"`
		DatasetID   string `json:"datasetId"`
		DatasetName string `json:"datasetName"`
		Payload     string `json:"payload"`
	}{DefaultProjectID, d.id, d.name, payload})
	if err != nil {
		return nil, err
	}
	stamp := fmt.Sprint(s.cfg.Now().Unix())
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "." + string(body)))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Langfuse/1.0")
	if secret != "" {
		request.Header.Set("X-Langfuse-Signature", "t="+stamp+",v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	return request, nil
}

// loopbackOnly lets a connection be made to this machine only, whatever the name was.
func loopbackOnly(network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && !(at.Addr().IsLoopback() && strings.HasPrefix(network, "tcp")) {
		err = fmt.Errorf("%s is not an address of this machine", address)
	}
	return err
}
