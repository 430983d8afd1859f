package fakellm

import (
	"fmt"
	"io"
	"net/http"
)

// profile is the state of an engine's profiler. It costs nothing here: what it is
// asked for is what matters.
type profile struct {
	running bool
	asked   []string // bodies of the calls that began one
}

// maxProfileBody bounds a body that is kept, and maxProfiles their number.
const (
	maxProfileBody = 4 << 10
	maxProfiles    = 64
)

func (e *Engine) hasProfiler() bool {
	c := e.config()
	return c.Engine != VLLM || c.Profiler
}

func (e *Engine) startProfile(w http.ResponseWriter, r *http.Request) {
	if !e.hasProfiler() {
		writeJSON(w, http.StatusNotFound, []byte(`{"detail":"Not Found"}`))
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxProfileBody))
	if err != nil {
		return // the client is gone
	}
	e.mu.Lock()
	was := e.profile.running
	if !was {
		e.profile.running = true
		e.profile.asked = append(e.profile.asked[max(0, len(e.profile.asked)-maxProfiles+1):], string(body))
	}
	e.mu.Unlock()
	answerProfile(w, !was, "Start profiling.", "Profiling is already in progress. Call /stop_profile first.")
}

func (e *Engine) stopProfile(w http.ResponseWriter, _ *http.Request) {
	if !e.hasProfiler() {
		writeJSON(w, http.StatusNotFound, []byte(`{"detail":"Not Found"}`))
		return
	}
	e.mu.Lock()
	was := e.profile.running
	e.profile.running = false
	e.mu.Unlock()
	answerProfile(w, was, "Stop profiling. This will take some time.", "Profiling is not in progress. Call /start_profile first.")
}

func answerProfile(w http.ResponseWriter, ok bool, done, refused string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintln(w, refused)
		return
	}
	_, _ = fmt.Fprintln(w, done)
}
