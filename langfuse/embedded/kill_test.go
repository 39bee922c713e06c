package embedded

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// childEnv makes the test binary a server on the file that it names.
const childEnv = "EMBEDDED_TEST_SERVE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		fmt.Fprintln(os.Stderr, serveForever(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func serveForever(path string) error {
	s, err := Open(Config{Path: path, Mode: ModeV4Dual})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, s.Handler())
}

// A server that is killed in the middle of many writes has lost nothing that
// it acknowledged.
func TestServer_killed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, url: strings.TrimSpace(line), http: &http.Client{Transport: &http.Transport{}}}
	r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))

	var mu sync.Mutex
	acknowledged := map[string]string{} // path of the item or score -> id
	var all sync.WaitGroup
	for c := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", c, i)
				item, err := r.try("POST", api+"/dataset-items", object{"datasetName": "d", "id": id, "input": 1})
				if err != nil {
					return // killed
				}
				score, err := r.try("POST", api+"/ingestion", batchOf(scoreEvent(id, id, 0, at1)))
				if err != nil {
					return
				}
				link, err := r.try("POST", api+"/dataset-run-items", object{"runName": "r", "datasetItemId": id, "traceId": id})
				if err != nil {
					return
				}
				spans, err := r.try("POST", api+"/otel/v1/traces", export(rootSpan(id, "r"+id, "e", id)))
				if err != nil {
					return
				}
				mu.Lock()
				if item.status == 200 && score.status == 207 && link.status == 200 && spans.status == 200 {
					acknowledged[id] = id
				}
				enough := len(acknowledged) == 60
				mu.Unlock()
				if enough {
					if err := child.Process.Kill(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	_ = child.Wait() // says that it was killed
	r.http.CloseIdleConnections()
	if len(acknowledged) < 60 {
		t.Fatalf("only %d writes were acknowledged", len(acknowledged))
	}
	after := newRig(t, Config{Path: path, Mode: ModeV4Dual})
	linked := map[any]bool{}
	items, _ := after.must(200, after.get(api+"/datasets/d/runs/r")).at("datasetRunItems").([]any)
	for _, item := range items {
		linked[item.(map[string]any)["traceId"]] = true
	}
	for id := range acknowledged {
		after.must(200, after.get(api+"/dataset-items/"+id))
		after.must(200, after.get(api+"/traces/"+id))
		after.must(200, after.get(api+"/observations/r"+id))
		equal(t, "link "+id, linked[id], true)
		equal(t, "score "+id, after.get(api+"/v3/scores?id="+id).column("value"), []int{0})
	}
}
