package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// answerer is a pipeline for the scripts: the text of the question decides the answer.
func answerer() int {
	requests := bufio.NewScanner(os.Stdin)
	for requests.Scan() {
		var request struct {
			ID       string `json:"id"`
			Question string `json:"question"`
			PDF      string `json:"pdf"`
			SHA256   string `json:"pdf_sha256"`
		}
		if err := json.Unmarshal(requests.Bytes(), &request); err != nil || request.PDF == "" || len(request.SHA256) != 64 {
			fmt.Fprintln(os.Stderr, "a request of another form:", requests.Text())
			return 1
		}
		answer := "42 (стр. 2)"
		switch request.Question {
		case "hang":
			select {}
		case "flood":
			answer = strings.Repeat("x", 10<<20)
		case "die":
			return 3
		case "once":
			if os.Getenv("ANSWERER_WELL") == "" {
				fmt.Printf("{\"id\":%q,\"error\":{\"class\":\"provider\",\"message\":\"not today\"}}\n", request.ID)
				continue
			}
		case "fail":
			fmt.Printf("{\"id\":%q,\"error\":{\"class\":\"provider\",\"message\":\"no such index\"}}\n", request.ID)
			continue
		case "page 99":
			answer = "42 (стр. 99)"
		}
		fmt.Printf("{\"id\":%q,\"answer\":%q}\n", request.ID, answer)
	}
	return 0
}
