package langfuse_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"extraction-experiment/langfuse"
)

func ExampleClient_Probe() {
	mux := http.NewServeMux()
	answer := func(path string, status int, body string) {
		mux.HandleFunc("/api/public/"+path, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	answer("health", 200, `{"status":"OK","version":"4.16.0"}`)
	answer("projects", 200, `{"data":[{"id":"p1","name":"extraction"}]}`)
	answer("experiments", 200, `{"data":[],"meta":{}}`)
	answer("v2/scores", 404, `{"message":"not available in Langfuse v4 events_only mode"}`)
	web := httptest.NewServer(mux)
	defer web.Close()

	environment := map[string]string{
		"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1", "LANGFUSE_BASE_URL": web.URL + "/",
	}
	config, _, err := langfuse.ConfigFromEnv(func(name string) (string, bool) { v, ok := environment[name]; return v, ok })
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := langfuse.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := client.Probe(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(server.Project.Name, server.Version, server.Mode(), server.StoresLinks())
	// Output: extraction 4.16.0 events_only false
}
