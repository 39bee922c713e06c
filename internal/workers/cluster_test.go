package workers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/natsserver"
	"extraction-experiment/internal/testkit/suite"
)

// TestWork_cluster restarts each server of a cluster of three in turn during a run, and checks that
// every item has one outcome, that nothing is left on the servers, and that streams and buckets
// have three replicas.
func TestWork_cluster(t *testing.T) {
	suite.Slow(t, "three servers that elect")
	t.Parallel()
	const items = 600
	f := newFixture(t, items)
	servers := startCluster(t)
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.URL())
	}
	f.address = strings.Join(addresses, ",")
	var calls atomic.Int64
	for i := range 2 {
		f.startWorker(fmt.Sprint("w", i), func(context.Context, experiment.Item) error {
			calls.Add(1)
			time.Sleep(20 * time.Millisecond)
			return nil
		})
	}
	ended := make(chan error, 1)
	go func() {
		_, err := f.run(context.Background(), false, nil, nil)
		ended <- err
	}()
	for i, s := range servers {
		waitFor(t, "calls", func() bool { return calls.Load() > int64(100*(i+1)) })
		s.Restart(false)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	f.checkOutcomes(items)
	f.checkEmpty()
	c := f.connect("1")
	for _, name := range []string{unitStream, resultStream, "KV_" + runBucket, "OBJ_" + largeBucket} {
		stream, err := c.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().Config.Replicas; n != 3 {
			t.Errorf("%s is kept %d times", name, n)
		}
	}
}

// startCluster starts a cluster of three servers and waits until its leader knows all of them.
func startCluster(t *testing.T) []*natsserver.Server {
	t.Helper()
	var ports []int
	var routes []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, "nats://"+l.Addr().String())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var servers []*natsserver.Server
	for i, port := range ports {
		servers = append(servers, natsserver.Start(t, func(o *server.Options) {
			o.ServerName = fmt.Sprint("s", i)
			o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}
			o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		}))
	}
	waitFor(t, "a leader that knows all", func() bool {
		for _, s := range servers {
			if len(s.JetStreamClusterPeers()) == len(servers) { // only the leader has peers
				return true
			}
		}
		return false
	})
	return servers
}

// TestConnect_credentials checks that Connect accepts the credentials of a user whose account may
// use JetStream, and that the errors for other credentials say what is wrong and contain no secret.
func TestConnect_credentials(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	newKey := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		pair, err := create()
		must(err)
		public, err := pair.PublicKey()
		must(err)
		return pair, public
	}
	operator, operatorID := newKey(nkeys.CreateOperator)
	system, systemID := newKey(nkeys.CreateAccount)
	resolver := &server.MemAccResolver{}
	newAccount := func(limits jwt.JetStreamLimits) nkeys.KeyPair {
		pair, id := newKey(nkeys.CreateAccount)
		claims := jwt.NewAccountClaims(id)
		claims.Limits.JetStreamLimits = limits
		text, err := claims.Encode(operator)
		must(err)
		must(resolver.Store(id, text))
		return pair
	}
	systemClaims := jwt.NewAccountClaims(systemID)
	text, err := systemClaims.Encode(operator)
	must(err)
	must(resolver.Store(systemID, text))
	credentialsFile := func(account nkeys.KeyPair, expires time.Time) string {
		pair, id := newKey(nkeys.CreateUser)
		claims := jwt.NewUserClaims(id)
		if !expires.IsZero() {
			claims.Expires = expires.Unix()
		}
		text, err := claims.Encode(account)
		must(err)
		seed, err := pair.Seed()
		must(err)
		content, err := jwt.FormatUserConfig(text, seed)
		must(err)
		path := filepath.Join(t.TempDir(), "x.creds")
		must(os.WriteFile(path, content, 0o600))
		return path
	}
	allowed := newAccount(jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1})
	noJetStream := newAccount(jwt.JetStreamLimits{})
	twoStreams := newAccount(jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: 2, Consumer: -1})
	claims := jwt.NewOperatorClaims(operatorID)
	claims.SystemAccount = systemID
	_, err = claims.Encode(operator)
	must(err)
	s := natsserver.Start(t, func(o *server.Options) {
		o.TrustedOperators, o.AccountResolver, o.SystemAccount = []*jwt.OperatorClaims{claims}, resolver, systemID
	})
	malformed := filepath.Join(t.TempDir(), "x.creds")
	must(os.WriteFile(malformed, []byte("secret"), 0o600))
	for name, c := range map[string]struct {
		file, want string
		code       int
	}{
		"none":         {"", "refuses the token or credentials", 69},
		"system":       {credentialsFile(system, time.Time{}), "has no JetStream for this account", 69},
		"expired":      {credentialsFile(allowed, time.Now().Add(-time.Hour)), "refuses the token or credentials", 69},
		"malformed":    {malformed, "x.creds is not a credentials file, which nsc makes", 64},
		"no JetStream": {credentialsFile(noJetStream, time.Time{}), "has no JetStream for this account", 69},
		"two streams":  {credentialsFile(twoStreams, time.Time{}), "maximum number of streams reached", 69},
	} {
		_, err := Connect(t.Context(), Config{Address: s.URL(), Credentials: c.file})
		if err == nil || cli.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "start one") {
			t.Errorf("%s: %d, %v", name, cli.ExitCode(err), err)
		}
	}
	c, err := Connect(t.Context(), Config{Address: s.URL(), Credentials: credentialsFile(allowed, time.Time{})})
	must(err)
	c.Close()
}
