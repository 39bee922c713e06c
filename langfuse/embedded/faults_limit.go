package embedded

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// window is a stretch of time in which a bucket takes so many requests.
type window struct {
	ends time.Time
	used int
}

// limit answers 429 and returns true where the bucket of a route has taken as
// many requests as it takes in a window.
func (f *faulty) limit(w http.ResponseWriter, rt route, now time.Time) bool {
	name := bucket(rt)
	if f.RateLimit == 0 || name == "" {
		return false
	}
	f.mu.Lock()
	current := f.windows[name]
	if !now.Before(current.ends) {
		current = window{ends: now.Add(f.RateWindow)}
	}
	current.used++
	f.windows[name] = current
	f.mu.Unlock()
	if current.used <= f.RateLimit {
		return false
	}
	left := current.ends.Sub(now)
	whole := time.Duration(math.Ceil(left.Seconds())) * time.Second
	f.tooMany(w, whole, limited{limit: f.RateLimit, reset: current.ends})
	return true
}

// bucket names the group of routes that share a limit; prompts, health and
// projects have none, nor has what is not of Langfuse.
func bucket(rt route) string {
	path, public := strings.CutPrefix(rt.pattern, "/api/public/")
	first, rest, _ := strings.Cut(path, "/")
	switch {
	case !public || strings.Contains(path, "prompts") || first == "health" || first == "ready" || first == "projects":
		return ""
	case first == "otel" || first == "ingestion":
		return "ingestion"
	case strings.HasPrefix(first, "dataset") || strings.HasPrefix(rest, "datasets"):
		return "datasets"
	case first == "annotation-queues":
		return "annotation-queues"
	case rt.method == http.MethodDelete && (first == "traces" || first == "scores"):
		return strings.TrimSuffix(first, "s") + "-delete"
	case first == "traces" || first == "observations" || first == "sessions" || first == "metrics":
		return "public-api-legacy"
	}
	return "public-api"
}
