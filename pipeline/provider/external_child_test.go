package provider

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// childMode is the variable of the environment that makes this test binary a pipeline with that
// behaviour.
const childMode = "EXTERNAL_TEST_CHILD"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(childMode); behaviour != "" {
		os.Exit(runChild(behaviour))
	}
	goleak.VerifyTestMain(m)
}

// runChild answers each line of standard input with respond. With the behaviour "tenth", it exits
// at the 10th, with "first" at the first.
func runChild(behaviour string) int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for n := 1; ; n++ {
		request, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		if behaviour == "tenth" && n == 10 || behaviour == "first" {
			fmt.Fprintln(os.Stderr, "out of memory")
			return 137
		}
		fmt.Println(respond(behaviour, request))
	}
}

// respond returns the answer of a program with that behaviour.
func respond(behaviour string, request []byte) string {
	var r struct {
		ID   string `json:"id"`
		Text string `json:"document_text"`
	}
	if err := json.Unmarshal(request, &r); err != nil {
		return `{"error":"` + err.Error() + `"}`
	}
	switch behaviour {
	case "garbage":
		return "Traceback (most recent call last):"
	case "late":
		return `{"id":"0","entities":[]}`
	case "many":
		return `{"entities":[` + strings.Repeat(`{"name":"x","type":"T"},`, 199_999) + `{"name":"x"}],"relationships":[]}`
	case "raw": // the document is the answer
		return r.Text
	}
	name, _, _ := strings.Cut(r.Text, " ")
	return fmt.Sprintf(`{"id":%q,"entities":[{"name":%q,"type":"T"}]}`, r.ID, name)
}
