package workers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
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
)

// Environment of a connection.
const (
	EnvToken       = "EXPERIMENT_WORKERS_TOKEN"
	EnvCredentials = "EXPERIMENT_WORKERS_CREDENTIALS" // a file that nsc made
)

// Config says which NATS server to use.
type Config struct {
	Address  string // nats://HOST:PORT, or tls://; several with commas between
	Insecure bool   // without TLS also beyond this machine
	// Token or the Credentials file says who asks; both may be empty.
	Token, Credentials string
	Version            string // of this program
	// Lease is how long a worker may say nothing of a unit; 0 means DefaultLease.
	Lease time.Duration
	// Note, if set, is told what a person should know meanwhile, as that no worker is there.
	Note func(string)

	beat time.Duration // between signs of life; 0 means beatEvery
}

// lost is after how long without a beat a coordinator or a worker counts as gone.
func (c Config) lost() time.Duration { return 5 * c.beat }

// comesBack is how long a server may be away when a run ends.
func (c Config) comesBack() time.Duration { return 20 * c.beat }

// Conn is a connection to a NATS server with JetStream. Safe for concurrent use.
type Conn struct {
	cfg  Config
	id   string // of this process on the server
	nats *nats.Conn
	js   jetstream.JetStream
	runs jetstream.KeyValue
	big  jetstream.ObjectStore
}

// Connect connects and makes the streams. Errors of exit code 64 are of the address,
// those of 69 of the server: away, another token, no JetStream. It sends nothing of a run.
func Connect(ctx context.Context, cfg Config) (*Conn, error) {
	shown, err := check(cfg)
	if err != nil {
		return nil, err
	}
	cfg.Lease, cfg.beat = cmp.Or(cfg.Lease, DefaultLease), cmp.Or(cfg.beat, beatEvery)
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	host, _ := os.Hostname()
	c := &Conn{cfg: cfg, id: fmt.Sprintf("%s-%d-%s", token(host), os.Getpid(), rand.Text()[:10])}
	options := []nats.Option{
		nats.Name("experiment " + c.id), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond), nats.Timeout(5 * time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // else they go to standard error
	}
	if cfg.Token != "" {
		options = append(options, nats.Token(cfg.Token))
	}
	if cfg.Credentials != "" {
		options = append(options, nats.UserCredentials(cfg.Credentials))
	}
	if c.nats, err = nats.Connect(cfg.Address, options...); err != nil {
		return nil, unreachable(shown, err)
	}
	if c.js, err = jetstream.New(c.nats); err == nil {
		err = c.prepare(ctx)
	}
	if err != nil {
		c.nats.Close()
		return nil, unreachable(shown, err)
	}
	return c, nil
}

// token makes a part of a subject of a name.
func token(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && valid(string(r)) {
			return r
		}
		return '-'
	}, name)
}

// check checks the address, and returns it as it may be shown.
func check(cfg Config) (string, error) {
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
		content, err := os.ReadFile(cfg.Credentials)
		if err != nil {
			return "", cli.Usage("%s: %w", EnvCredentials, err)
		}
		if _, err := nkeys.ParseDecoratedUserNKey(content); err != nil {
			return "", cli.Usage("%s: %s is not a credentials file, which nsc makes: %w", EnvCredentials, cfg.Credentials, err)
		}
	}
	return strings.Join(shown, ", "), nil
}

// unreachable says what is wrong with a server, with exit code 69.
func unreachable(address string, err error) error {
	said := fmt.Sprintf("the NATS server at %s", address)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return cli.Errorf(cli.ExitUnavailable, "%s refuses the token or credentials: check %s and %s", said, EnvToken, EnvCredentials)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return cli.Errorf(cli.ExitUnavailable, "%s gives this account no JetStream: set the account's limits of JetStream", said)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return cli.Errorf(cli.ExitUnavailable, "%s has no JetStream: start it with nats-server -js", said)
	case errors.Is(err, nats.ErrNoServers):
		return cli.Errorf(cli.ExitUnavailable, "%s cannot be reached: %w; start one with nats-server -js", said, err)
	}
	return cli.Errorf(cli.ExitUnavailable, "%s cannot be used: %w", said, err)
}

// prepare makes what is not there of streams and buckets.
func (c *Conn) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := c.js.AccountInfo(ctx); err != nil {
		return err
	}
	const kept = 14 * 24 * time.Hour
	replicas := 1
	if len(c.nats.Servers()) >= 3 { // a cluster
		replicas = 3
	}
	for name, subject := range map[string]string{unitStream: unitSubject, resultStream: resultSubject} {
		_, err := c.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{subject + "*.*"}, Retention: jetstream.WorkQueuePolicy, MaxAge: kept,
			Replicas: replicas, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, DiscardNewPerSubject: true,
			Description: "units of experiments and what came of them; see docs/workers.md",
		})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	// What is there stays as it is: who sees fewer servers must not take replicas away.
	runs, err := c.js.KeyValue(ctx, runBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		runs, err = c.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: runBucket, TTL: kept, Replicas: replicas})
	}
	big, failed := c.js.ObjectStore(ctx, largeBucket)
	if errors.Is(failed, jetstream.ErrBucketNotFound) {
		big, failed = c.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: largeBucket, TTL: kept, Replicas: replicas})
	}
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("buckets %s and %s: %w", runBucket, largeBucket, err)
	}
	if c.runs == nil { // by Connect; they go by names, also on a server that was emptied
		c.runs, c.big = runs, big
	}
	return nil
}

// sleep waits for a while, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Close ends the connection at once.
func (c *Conn) Close() { c.nats.Close() }

// errThere says that a message under the same subject is there, errLarge that one does
// not travel: there is no point in trying again.
var (
	errThere = errors.New("there is one already")
	errLarge = fmt.Errorf("more than %d bytes do not travel between machines", maxPayload)
)

// publish stores a message under a subject of its own; errThere says that there is one. What
// is too large goes through the object store. Anything else may be tried again.
func (c *Conn) publish(ctx context.Context, subject string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if len(data) > maxPayload {
		return errLarge
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
		return errThere
	}
	return err
}

// objectName is that of what a message under a subject has in the object store.
func objectName(subject string) string { return strings.TrimPrefix(subject, "experiment.") }

// receive reads the body of a message, and says whether an object is behind it. Where
// errDamaged is in the error, it will never be read.
func receive[T any](ctx context.Context, c *Conn, msg jetstream.Msg, into *T) (large bool, err error) {
	data := msg.Data()
	if large = msg.Headers().Get(largeHeader) != ""; large {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		object, err := c.big.Get(ctx, objectName(msg.Subject())) // whatever the header says
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

// List asks who is there, and waits a moment for the answers.
func (c *Conn) List(ctx context.Context) ([]Presence, error) {
	sub, err := c.nats.SubscribeSync(workerSubject + "*")
	if err != nil {
		return nil, err
	}
	moment, cancel := context.WithTimeout(ctx, c.cfg.beat*3/2)
	defer cancel()
	found := map[string]Presence{}
	for {
		msg, err := sub.NextMsgWithContext(moment)
		if err != nil { // the moment is over
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

// Runs returns the runs that are on the server, by id.
func (c *Conn) Runs(ctx context.Context) (map[string]Run, error) {
	return entries[Run](ctx, c, announcementOf)
}

// entries reads what the bucket of runs has under a prefix, by what follows that.
func entries[T any](ctx context.Context, c *Conn, prefix string) (map[string]T, error) {
	ids, err := c.stored(ctx, runStream, runSubject+prefix+"*")
	if err != nil {
		return nil, err
	}
	found := map[string]T{}
	for id := range ids {
		entry, err := c.runs.Get(ctx, prefix+id)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		var value T
		if err == nil {
			err = decode(entry.Value(), &value)
		}
		if err != nil {
			return nil, err
		}
		found[id] = value
	}
	return found, nil
}
