package workers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// Environment variables of a connection.
const (
	EnvToken       = "EXPERIMENT_WORKERS_TOKEN"
	EnvCredentials = "EXPERIMENT_WORKERS_CREDENTIALS" // a file made by nsc
)

// Config configures a connection to NATS.
type Config struct {
	Address  string // nats://HOST:PORT or tls://HOST:PORT; several are separated by commas
	Insecure bool   // allow other machines without TLS
	// At most one of Token and Credentials, the path of a file, may be set.
	Token, Credentials string
	Version            string // of this program
	// Lease is how long a worker may hold a unit without extending it; 0 means DefaultLease.
	Lease time.Duration
	// Note, if not nil, is called with messages for a person, such as that no worker is there.
	Note func(string)

	beatInterval time.Duration // time between heartbeats; 0 means a second
}

// lostAfter is how long after its last heartbeat a coordinator or worker counts as gone.
func (c Config) lostAfter() time.Duration { return 5 * c.beatInterval }

// maxOutage is how long the end of a run waits for a server that is away.
func (c Config) maxOutage() time.Duration { return 20 * c.beatInterval }

// Conn is a connection to a NATS server with JetStream. It is safe for concurrent use.
type Conn struct {
	cfg  Config
	id   string // identifies this process on the server
	nats *nats.Conn
	js   jetstream.JetStream
	runs jetstream.KeyValue
	big  jetstream.ObjectStore
}

// Connect connects to the server and creates the streams and buckets that are missing. It sends
// no data of a run. Errors of the address have exit code 64. Those of the server have 69: it is
// away, refuses the token, or has no JetStream.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	shown, err := checkAddress(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cfg.Lease, cfg.beatInterval = cmp.Or(cfg.Lease, DefaultLease), cmp.Or(cfg.beatInterval, beatInterval)
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	host, _ := os.Hostname()
	host = notInSubject().ReplaceAllString(host, "-")
	c := &Conn{cfg: cfg, id: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:10])}
	options := []nats.Option{
		nats.Name("experiment " + c.id), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.Timeout(5 * time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // NATS would write errors to standard error
	}
	if cfg.Token != "" {
		options = append(options, nats.Token(cfg.Token))
	}
	if cfg.Credentials != "" {
		options = append(options, nats.UserCredentials(cfg.Credentials))
	}
	if c.nats, err = nats.Connect(cfg.Address, options...); err != nil {
		return nil, cfg.connectError(shown, err)
	}
	if c.js, err = jetstream.New(c.nats); err == nil {
		err = c.prepare(ctx)
	}
	if err != nil {
		c.nats.Close()
		return nil, cfg.connectError(shown, err)
	}
	return c, nil
}

// notInSubject matches a character that a subject may not contain.
var notInSubject = textutil.Pattern(`[^0-9A-Za-z_-]`)

// checkAddress checks address and credentials, and returns the address for messages.
func checkAddress(ctx context.Context, cfg Config) (string, error) {
	var shown []string
	for address := range strings.SplitSeq(cfg.Address, ",") {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return "", cli.Usage("the address of the workers' server is not of the form nats://HOST:4222 or tls://HOST:4222")
		}
		if u.User != nil {
			return "", cli.Usage("the address of the workers' server holds a user or token, which everybody could read: put the token into %s", EnvToken)
		}
		ip := net.ParseIP(u.Hostname())
		if loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme != "tls" && !loopback && !cfg.Insecure {
			return "", cli.Usage("%s is another machine, and documents would travel in clear: write tls://%s, or add --insecure", u, u.Host)
		}
		shown = append(shown, u.String())
	}
	if cfg.Token != "" && cfg.Credentials != "" {
		return "", cli.Usage("%s and %s are both set: leave one out", EnvToken, EnvCredentials)
	}
	if cfg.Credentials != "" {
		content, err := files.Read(ctx, cfg.Credentials, files.MaxText)
		if err != nil {
			return "", cli.Usage("%s: %w", EnvCredentials, err)
		}
		if _, err := nkeys.ParseDecoratedUserNKey(content); err != nil {
			return "", cli.Usage("%s: %s is not a credentials file, which nsc makes: %w", EnvCredentials, cfg.Credentials, err)
		}
	}
	return strings.Join(shown, ", "), nil
}

// connectError explains why a server cannot be used, with exit code 69. The server may repeat the token.
func (cfg Config) connectError(address string, err error) error {
	mask := secret.NewMasker([]string{"TOKEN=" + cfg.Token}, nil)
	err = &textutil.Reworded{Text: mask.Text(err.Error()), Err: err}
	server := fmt.Sprintf("the NATS server at %s", address)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return cli.Errorf(cli.ExitUnavailable, "%s refuses the token or credentials: check %s and %s", server, EnvToken,
			EnvCredentials)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return cli.Errorf(cli.ExitUnavailable, "%s has no JetStream for this account: set the account's JetStream limits", server)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return cli.Errorf(cli.ExitUnavailable, "%s has no JetStream: start it with nats-server -js", server)
	case errors.Is(err, nats.ErrNoServers):
		return cli.Errorf(cli.ExitUnavailable, "%s cannot be reached: %w; start one with nats-server -js", server, err)
	}
	return cli.Errorf(cli.ExitUnavailable, "%s cannot be used: %w", server, err)
}

// prepare creates the streams and buckets that are missing.
func (c *Conn) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := c.js.AccountInfo(ctx); err != nil {
		return err
	}
	const retention = 14 * 24 * time.Hour
	replicas := 1
	if len(c.nats.Servers()) >= 3 {
		replicas = 3
	}
	for name, subject := range map[string]string{unitStream: unitSubject, resultStream: resultSubject} {
		_, err := c.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{subject + "*.*"}, Retention: jetstream.WorkQueuePolicy, MaxAge: retention,
			Replicas: replicas, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, DiscardNewPerSubject: true,
			Description: "units of experiments and what came of them; see docs/workers.md",
		})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	// Existing ones stay unchanged: a client that sees fewer servers must not remove replicas.
	runs, err := c.js.KeyValue(ctx, runBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		runs, err = c.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: runBucket, TTL: retention, Replicas: replicas})
	}
	big, failed := c.js.ObjectStore(ctx, largeBucket)
	if errors.Is(failed, jetstream.ErrBucketNotFound) {
		big, failed = c.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: largeBucket, TTL: retention, Replicas: replicas})
	}
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("buckets %s and %s: %w", runBucket, largeBucket, err)
	}
	if c.runs == nil { // called by Connect; later calls recreate them under the same names
		c.runs, c.big = runs, big
	}
	return nil
}

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Close closes the connection at once.
func (c *Conn) Close() { c.nats.Close() }

// Errors of publish after which there is no point in trying again: the subject has a message
// already, or the message cannot be sent.
var (
	errExists     = errors.New("there is one already")
	errUnsendable = errors.New("it cannot be sent")
)

// publish stores body as the only message of a subject. A large one goes through the object
// store. All errors but errExists and errUnsendable may be temporary.
func (c *Conn) publish(ctx context.Context, subject string, body any) error {
	data, err := textutil.MarshalJSON(body)
	if err == nil && len(data) > maxPayload {
		err = fmt.Errorf("more than %d bytes do not travel between machines", maxPayload)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnsendable, err)
	}
	msg := nats.NewMsg(subject)
	msg.Data = data
	if int64(len(data)) > c.nats.MaxPayload()-4096 {
		name := objectName(subject)
		if _, err := c.big.Put(ctx, jetstream.ObjectMeta{Name: name}, bytes.NewReader(data)); err != nil {
			return err
		}
		msg.Data = nil
		msg.Header.Set(largeHeader, name)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = c.js.PublishMsg(ctx, msg)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && strings.Contains(refused.Description, "maximum messages per subject") {
		return errExists
	}
	return err
}

// objectName is the name of the object that holds the payload of a message.
func objectName(subject string) string { return strings.TrimPrefix(subject, "experiment.") }

// receive decodes the payload of a message, and reports whether it was in the object store. An
// error that wraps errDamaged is permanent.
func receive[T any](ctx context.Context, c *Conn, msg jetstream.Msg, into *T) (large bool, err error) {
	data := msg.Data()
	if large = msg.Headers().Get(largeHeader) != ""; large {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		object, err := c.big.Get(ctx, objectName(msg.Subject())) // the header is not trusted
		switch {
		case errors.Is(err, jetstream.ErrObjectNotFound):
			return large, fmt.Errorf("%w: %w", errDamaged, err)
		case err != nil:
			return large, err
		}
		data, err = io.ReadAll(io.LimitReader(object, maxPayload+1))
		if err = errors.Join(err, object.Close()); err != nil {
			return large, err
		}
	}
	return large, decode(data, into)
}

// List returns the workers that report within one and a half heartbeats, sorted by name.
func (c *Conn) List(ctx context.Context) ([]Presence, error) {
	sub, err := c.nats.SubscribeSync(workerSubject + "*")
	if err != nil {
		return nil, err
	}
	window, cancel := context.WithTimeout(ctx, c.cfg.beatInterval*3/2)
	defer cancel()
	found := map[string]Presence{}
	for {
		msg, err := sub.NextMsgWithContext(window)
		if err != nil { // the time is over
			break
		}
		var p Presence
		if decode(msg.Data, &p) == nil {
			found[p.ID] = p
		}
	}
	list := slices.AppendSeq([]Presence{}, maps.Values(found))
	slices.SortFunc(list, func(a, b Presence) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return list, errors.Join(sub.Unsubscribe(), ctx.Err())
}

// Runs returns the runs on the server by id.
func (c *Conn) Runs(ctx context.Context) (map[string]Run, error) {
	return entries[Run](ctx, c, announcementPrefix)
}

// entries returns the values of the run bucket by what follows prefix in their keys. A damaged one
// is empty, and hides no other.
func entries[T any](ctx context.Context, c *Conn, prefix string) (map[string]T, error) {
	ids, err := c.storedKeys(ctx, runStream, runSubject+prefix+"*")
	if err != nil {
		return nil, err
	}
	found := map[string]T{}
	for id := range ids {
		entry, err := c.runs.Get(ctx, prefix+id)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var value T
		_ = decode(entry.Value(), &value)
		found[id] = value
	}
	return found, nil
}
