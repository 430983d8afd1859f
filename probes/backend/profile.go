package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// profileTime bounds the end of a profile: the server then writes its traces, which
// are large, before it answers.
const profileTime = 10 * time.Minute

// CheckProfile reports what a backend's profiler cannot be asked for.
func CheckProfile(name string, p *probes.Profile) error {
	d := dialects[name]
	if d == nil {
		return nil // Check says so
	}
	_, err := profileBody(name, d, p)
	return err
}

// CheckFlush reports a backend without a call that empties the prefix cache.
func CheckFlush(name string) error {
	if d := dialects[name]; d != nil && d.flushPath == "" {
		return fmt.Errorf("backend %s has no call to flush the cache", name)
	}
	return nil
}

func profileBody(name string, d *dialect, p *probes.Profile) (map[string]any, error) {
	if d.profile == nil {
		return nil, fmt.Errorf("backend %s has no call to profile", name)
	}
	body, err := d.profile(p)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", name, err)
	}
	return body, nil
}

// sglangProfile leaves out what was not asked for: the server has its own defaults.
func sglangProfile(p *probes.Profile) (map[string]any, error) {
	body := map[string]any{}
	if len(p.Activities) > 0 {
		body["activities"] = p.Activities
	}
	if p.StartStep > 0 {
		body["start_step"] = p.StartStep
	}
	if p.Steps > 0 {
		body["num_steps"] = p.Steps
	}
	if p.ByStage {
		body["profile_by_stage"] = true
	}
	if len(p.Stages) > 0 {
		body["profile_stages"] = p.Stages
	}
	if p.OutputDir != "" {
		body["output_dir"] = p.OutputDir
	}
	if p.Prefix != "" {
		body["profile_prefix"] = p.Prefix
	}
	return body, nil
}

// vllmProfile: what vLLM profiles is fixed when it starts.
func vllmProfile(p *probes.Profile) (map[string]any, error) {
	if len(p.Activities)+len(p.Stages) > 0 || p.StartStep+p.Steps > 0 || p.ByStage || p.OutputDir+p.Prefix != "" {
		return nil, errors.New("its profiler takes no options, they are set when the server starts")
	}
	return nil, nil
}

// StartProfile starts the server's profiler.
func (c *Client) StartProfile(ctx context.Context, p *probes.Profile) error {
	body, err := profileBody(c.target.Backend, c.d, p)
	if err != nil {
		return fmt.Errorf("start profile: %w", err)
	}
	var sent any
	if body != nil {
		sent = body
	}
	err = c.call(ctx, http.MethodPost, "/start_profile", sent, nil)
	var refused *statusError
	if errors.As(err, &refused) && refused.code == http.StatusNotFound {
		return fmt.Errorf("start profile: start the server with a profiler (vLLM: --profiler-config; SGLang: SGLANG_TORCH_PROFILER_DIR): %w", err)
	}
	if err != nil {
		return fmt.Errorf("start profile: %w", err)
	}
	return nil
}

// StopProfile ends it and waits until the server has written its traces, at most ten
// minutes.
func (c *Client) StopProfile(ctx context.Context) error {
	if err := c.callWithin(ctx, profileTime, http.MethodPost, "/stop_profile", nil, nil); err != nil {
		return fmt.Errorf("stop profile: %w", err)
	}
	return nil
}
