package selftest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// plainBody is the request of the clients that are laid beside the measuring
// path; it asks for the same answer.
func plainBody(l load) []byte {
	return fmt.Appendf(nil, `{"model":"truth","prompt":%q,"max_tokens":%d,"stream":true,"temperature":0,"stream_options":{"include_usage":true,"continuous_usage_stats":%t}}`,
		prompt, l.Tokens, l.Backend == "vllm")
}

// sendNaive sends the load the way one writes it at first: net/http, a buffered
// reader, a stamp for each line, encoding/json for each event.
func sendNaive(ctx context.Context, clock probes.Clock, l load) ([]Exchange, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: l.Streams, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	body := plainBody(l)
	exchanges := make([]Exchange, l.Requests)
	indexes := make(chan int)
	var workers sync.WaitGroup
	for slot := range l.Streams {
		workers.Go(func() {
			time.Sleep(time.Duration(slot) * l.Gap)
			for i := range indexes {
				e := &exchanges[i]
				e.ID = strconv.Itoa(i)
				if err := askNaively(ctx, clock, client, l, body, e); err != nil {
					e.Error = err.Error()
				}
			}
		})
	}
	for i := range l.Requests {
		indexes <- i
	}
	close(indexes)
	workers.Wait()
	return exchanges, nil
}

func askNaively(ctx context.Context, clock probes.Clock, client *http.Client, l load, body []byte, e *Exchange) error {
	e.Sent = clock.Now()
	e.Due = e.Sent
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		e.Reused, e.Setup = info.Reused, clock.Now()-e.Sent
	}})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.Address+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", e.ID)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		now := clock.Now()
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var event struct {
			Choices []struct {
				Text string `json:"text"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(data, &event); err != nil {
			return fmt.Errorf("decode event: %w", err)
		}
		if len(event.Choices) > 0 && event.Choices[0].Text != "" {
			e.At = append(e.At, now)
		}
	}
	return lines.Err()
}
