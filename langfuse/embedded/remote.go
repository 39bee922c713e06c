package embedded

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// RemoteRun is what the Run button of a dataset sends in Langfuse's user interface, which
// this server does not have.
type RemoteRun struct {
	Dataset string // its name
	URL     string // where it is sent: http on this machine
	Secret  string // signs it, if it is not empty
	Payload string // the text of the Config box
}

// remotePatience is how long Langfuse waits for the answer.
const remotePatience = 20 * time.Second

// StartRemoteRun sends the request of the Run button as Langfuse 4.16 does, and returns the
// status of the answer with the beginning of its text, which Langfuse shows nobody. It
// fails where the dataset does not exist and where there is no answer within 20 s. It sends
// to loopback addresses only and follows no redirect. Each call sends once.
//
// Over HTTP it is POST /api/embedded/datasets/{name}/run with url, secret and payload,
// which answers {"status","answer"}; Langfuse itself has no such route.
func (s *Server) StartRemoteRun(ctx context.Context, run RemoteRun) (status int, answer string, err error) {
	d, exists, err := datasetByName(s.store.r, run.Dataset)
	if err == nil && !exists {
		err = notFound("Dataset not found")
	}
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, remotePatience)
	defer cancel()
	request, err := s.remoteRequest(ctx, d, run)
	if err != nil {
		return 0, "", fmt.Errorf("starting a remote run: %w", err)
	}
	dialer := net.Dialer{Control: loopbackOnly}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", fmt.Errorf("starting a remote run: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	return response.StatusCode, string(text), errors.Join(err, response.Body.Close())
}

// remoteRequest makes the request, the keys in Langfuse's order.
func (s *Server) remoteRequest(ctx context.Context, d dataset, run RemoteRun) (*http.Request, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(struct {
		ProjectID   string `json:"projectId"`
		DatasetID   string `json:"datasetId"`
		DatasetName string `json:"datasetName"`
		Payload     string `json:"payload"`
	}{DefaultProjectID, d.id, d.name, run.Payload})
	if err != nil {
		return nil, err
	}
	body.Truncate(body.Len() - 1) // the encoder's line end
	stamp := fmt.Sprint(s.cfg.Now().Unix())
	mac := hmac.New(sha256.New, []byte(run.Secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body.Bytes())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, run.URL, &body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Langfuse/1.0")
	if run.Secret != "" {
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

// startRemoteRun answers POST /api/embedded/datasets/{name}/run.
func (s *Server) startRemoteRun(c *call) (any, error) {
	f := c.form(smallBody)
	run := RemoteRun{Dataset: c.path("name"), URL: f.must("url"), Secret: f.text("secret"), Payload: f.text("payload")}
	f.only()
	if err := f.err(); err != nil {
		return nil, err
	}
	status, answer, err := s.StartRemoteRun(c.r.Context(), run)
	var told *fault
	switch {
	case errors.As(err, &told):
		return nil, told
	case err != nil:
		return nil, invalid("%s", err)
	}
	return object{"status": status, "answer": answer}, nil
}
