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

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
)

// remoteTimeout is the time that Langfuse waits for the answer.
const remoteTimeout = 20 * time.Second

// startRemoteRun answers POST /api/embedded/datasets/{name}/run, which Langfuse does not have. It
// does what the Run button of a dataset in Langfuse's user interface does. It sends the request
// of Langfuse 4.16 once per call, to loopback addresses only, and follows no redirects. The
// answer has the status that arrived within 20 s and the beginning of the text, which Langfuse
// does not show.
func (s *Server) startRemoteRun(c *call) (any, error) {
	f := c.form(smallBody)
	address, secret, payload := f.required("url"), f.text("secret"), f.text("payload")
	if err := f.rejectUnknown().err(); err != nil {
		return nil, err
	}
	d, err := requireDataset(s.store.r, c.path("name"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), remoteTimeout)
	defer cancel()
	request, err := s.remoteRequest(ctx, d, address, secret, payload)
	var answer object
	if err == nil {
		answer, err = sendRemoteRun(request)
	}
	if err != nil {
		return nil, invalidRequest("starting a remote run: %s", err)
	}
	return answer, nil
}

// sendRemoteRun sends the request to a loopback address and follows no redirects.
func sendRemoteRun(request *http.Request) (object, error) {
	dialer := net.Dialer{Control: loopbackOnly}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	response, err := limit.HTTPClient(&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return object{"status": response.StatusCode, "answer": string(text)}, errors.Join(err, response.Body.Close())
}

// remoteRequest builds the request, with the keys in Langfuse's order. A secret, if not empty,
// signs it. The payload is the text of the Config box.
func (s *Server) remoteRequest(ctx context.Context, d dataset, url, secret, payload string) (*http.Request, error) {
	body, _ := textutil.MarshalJSON(struct { // texts cannot fail
		ProjectID   string `json:"projectId"`
		DatasetID   string `json:"datasetId"`
		DatasetName string `json:"datasetName"`
		Payload     string `json:"payload"`
	}{DefaultProjectID, d.id, d.name, payload})
	timestamp := fmt.Sprint(s.cfg.Now().Unix())
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "." + string(body)))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Langfuse/1.0")
	if secret != "" {
		request.Header.Set("X-Langfuse-Signature", "t="+timestamp+",v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	return request, nil
}

// loopbackOnly returns an error unless a connection goes to this machine, whatever its name was.
func loopbackOnly(network, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && !(at.Addr().IsLoopback() && strings.HasPrefix(network, "tcp")) {
		err = fmt.Errorf("%s is not an address of this machine", address)
	}
	return err
}
