package tracking_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// checkRefused publishes, verifies and repairs the run with another server, and checks that each
// fails with an error of type E and exit code 64, and that nothing was written.
func checkRefused[E error](s *scene, target *world, verifyFails bool, texts ...string) {
	t := s.t
	t.Helper()
	commitSecond(t, s.run, 3, 1)
	s.routes.Clear()
	target.routes.Clear()
	verify, publish := s.verifyConfig(s.run), s.publishConfig(s.run)
	verify.Client, publish.Client = target.client, target.client
	publishErr := target.publish(t, s.run)
	_, _, repairErr := tracking.Repair(t.Context(), verify, publish)
	verification, verifyErr := tracking.Verify(t.Context(), verify)
	errs := map[string]error{"publish": publishErr, "repair": repairErr}
	if verifyFails {
		errs["verify"] = verifyErr
	} else if said := verification.RepairRefused; verifyErr != nil || repairErr == nil || said != repairErr.Error() {
		t.Errorf("verify: %v; it says that a repair is refused: %q", verifyErr, said)
	}
	for name, err := range errs {
		var want E
		var coded interface{ ExitCode() int }
		if !errors.As(err, &want) || !errors.As(err, &coded) || coded.ExitCode() != 64 {
			t.Errorf("%s: %T %v", name, err, err)
			continue
		}
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s does not say %q: %v", name, text, err)
			}
		}
	}
	if n := len(s.writes()) + len(target.writes()); n > 0 {
		t.Errorf("written: %v and %v", s.writes(), target.writes())
	}
}

// TestModes_elsewhere: a server with the same project and dataset name, but without the run, is
// refused because of its address.
func TestModes_elsewhere(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		s := newScene(t, mode, harm{})
		other := newWorldIn(t, mode)
		other.newRun(t, "theirs", 6)
		checkRefused[*tracking.WrongServerError](s, other, true,
			"published to "+s.client.BaseURL(), "this is "+other.client.BaseURL(), "set LANGFUSE_BASE_URL to "+s.client.BaseURL(), "nothing was written")
	})
}

// TestSite_newerForm: a run of a later version, which publishes in another form, is neither
// published nor verified nor repaired.
func TestSite_newerForm(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, embedded.ModeV4)
	w.publication.Form++
	run := w.newRun(t, "newer", 3)
	w.routes.Clear()
	_, verifyErr := w.verify(t, run)
	_, _, repairErr := w.repair(t, run)
	publishErr := w.publish(t, run)
	if errors.As(publishErr, new(*tracking.UnpublishedError)) {
		t.Errorf("it was tried again: %v", publishErr)
	}
	for name, err := range map[string]error{"publish": publishErr, "verify": verifyErr, "repair": repairErr} {
		if !errors.Is(err, runstore.ErrNewer) || !strings.Contains(err.Error(), "it is published in form 2, and this program knows 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(w.writes()); n > 0 {
		t.Errorf("written: %v", w.writes())
	}
}

// TestModes_renamed: the same server is accepted under another address.
func TestModes_renamed(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		s := newScene(t, mode, harm{})
		renamed := httptest.NewServer(s.store.Handler())
		defer renamed.Close()
		cfg := s.world.config
		cfg.BaseURL = renamed.URL
		moved := &world{config: cfg, server: s.server}
		var err error
		if moved.client, err = langfuse.New(cfg); err != nil {
			t.Fatal(err)
		}
		commitSecond(t, s.run, 3, 1)
		moved.mustPublish(t, s.run)
		verify := s.verifyConfig(s.run)
		verify.Client = moved.client
		if verification, err := tracking.Verify(t.Context(), verify); err != nil || verification.Checked.Items != 6 {
			t.Errorf("%+v %v", verification, err)
		}
		if place, err := s.run.Server(t.Context()); err != nil || place != s.client.BaseURL() {
			t.Errorf("the run was published to %q, %v", place, err)
		}
	})
}

// TestPlace_free: a run without acknowledgements may be published to another server that has its
// dataset.
func TestPlace_free(t *testing.T) {
	w := newWorld(t)
	run := w.newRun(t, "base", 3)
	if err := run.SetServer(t.Context(), "https://down.example"); err != nil {
		t.Fatal(err)
	}
	w.mustPublish(t, run)
	if place, err := run.Server(t.Context()); err != nil || place != w.client.BaseURL() {
		t.Errorf("published to %q, %v", place, err)
	}
}

// TestModes_opened: the run was opened on a server, which acknowledged nothing. It is not published
// to another server, which has neither its dataset nor a trace that would show it to be the same.
func TestModes_opened(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		w := newWorldIn(t, mode)
		run := w.newRun(t, "base", 3)
		w.refuse("otel", http.StatusBadGateway)
		if err := w.publish(t, run); err == nil {
			t.Fatal("published all the same")
		}
		other := newWorldIn(t, mode)
		other.routes.Clear()
		var elsewhere *tracking.WrongServerError
		if err := other.publish(t, run); !errors.As(err, &elsewhere) || !strings.Contains(err.Error(), "published to "+w.client.BaseURL()) {
			t.Errorf("published elsewhere: %v", err)
		}
		verify := other.verifyConfig(run)
		if _, err := tracking.Verify(t.Context(), verify); !errors.As(err, &elsewhere) {
			t.Errorf("verified elsewhere: %v", err)
		}
		if written := other.writes(); len(written) > 0 {
			t.Errorf("written: %v", written)
		}
	})
}

// TestModes_otherDataset: the dataset of that name has another id.
func TestModes_otherDataset(t *testing.T) {
	inModes(t, modesOrSample(), func(t *testing.T, mode embedded.Mode) {
		t.Parallel()
		s := newScene(t, mode, harm{})
		s.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/v2/datasets/d") {
				return false
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(rw, `{"id":"made-again","name":"d","createdAt":"2026-11-21T09:00:00Z","updatedAt":"2026-11-21T09:00:00Z"}`)
			return true
		})
		checkRefused[*tracking.WrongServerError](s, s.world, false, `id made-again`, "deleted and made again", "nothing was written")
	})
}

// TestPublish_nameTaken: a run is not published into another one of its name, but into what an earlier
// process of its own opened and did not record.
func TestPublish_nameTaken(t *testing.T) {
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorldIn(t, mode)
			first := w.newRun(t, "base", 3)
			header, err := first.Header(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if w.server.StoresLinks() {
				_, err := w.client.CreateDatasetRunItem(t.Context(), langfuse.DatasetRunItemCreate{
					RunName: "base", DatasetItemID: itemID(1), TraceID: tracking.TraceID(header, outcomeAt(1)),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			w.mustPublish(t, first)
			w.uid = strings.Repeat("cd", 16)
			second := w.newRun(t, "base", 3)
			w.routes.Clear()
			err = w.publish(t, second)
			if !errors.Is(err, tracking.ErrNameTaken) || cli.ExitCode(err) != cli.ExitUsage || len(w.writes()) > 0 {
				t.Errorf("%v, exit code %d, writes %v", err, cli.ExitCode(err), w.writes())
			}
			w.mustPublish(t, first)
		})
	}
}
