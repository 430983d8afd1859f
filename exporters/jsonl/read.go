package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/inferbeat/inferbeat/probes"
)

// Read returns the runs of a file that was written with [Options].Details, with
// everything that a summary and a judgement are made of, but without these: they
// are to be made again. Each run's Origin is its file and line. The first line
// that is no such run ends the reading with an error that names it.
func Read(file string, r io.Reader) ([]*probes.Run, error) {
	var runs []*probes.Run
	err := eachLine(file, r, func(text []byte, origin string) error {
		run, err := readLine(text)
		if err != nil {
			return err
		}
		run.Origin = origin
		runs = append(runs, run)
		return nil
	})
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf("%s: holds no result", file)
	}
	return runs, err
}

// eachLine calls take with every line of a file that is not empty and with its place,
// FILE:LINE, until one is refused; the error names the place.
func eachLine(file string, r io.Reader, take func(text []byte, origin string) error) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	for number := 1; ; number++ {
		origin := fmt.Sprintf("%s:%d", file, number)
		text, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: read: %w", origin, err)
		}
		if text := bytes.TrimSpace(text); len(text) > 0 {
			if problem := take(text, origin); problem != nil {
				return fmt.Errorf("%s: %w", origin, problem)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// written is the part of a line that a run is read back from.
type written struct {
	Texts     []string `json:"generated_texts"`
	Inferbeat *struct {
		RunID       string          `json:"run_id"`
		Target      target          `json:"target"`
		Start       time.Time       `json:"start"`
		End         time.Time       `json:"end"`
		Complete    bool            `json:"complete"`
		Error       string          `json:"error"`
		Fingerprint string          `json:"fingerprint"`
		Shard       *shard          `json:"shard"`
		Validity    probes.Validity `json:"validity"`
		Skipped     int             `json:"skipped_rows"`
		Details     *raw            `json:"details"`
	} `json:"inferbeat"`
}

func readLine(text []byte) (*probes.Run, error) {
	var w written
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, fmt.Errorf("parse result: %w", err)
	}
	l := w.Inferbeat
	switch {
	case l == nil:
		return nil, errors.New("read result: is not one of inferbeat; 'inferbeat import' reads those of other tools")
	case l.Error != "":
		return nil, fmt.Errorf("read result: the run could not be carried out: %s", l.Error)
	case l.Details == nil || l.Details.Records == nil:
		return nil, errors.New("read result: has no records; run it with --output-details")
	}
	d := l.Details
	run := &probes.Run{
		ID: l.RunID, Target: l.Target.back(), Spec: restored(d.Spec), Start: l.Start, End: l.End, Complete: l.Complete,
		SkippedRows: l.Skipped, Facts: d.Facts, Fingerprint: l.Fingerprint, Validity: l.Validity, Sending: probes.Sending(d.Sending),
	}
	if l.Shard != nil {
		run.Whole = l.Shard.Whole
	}
	run.Summary.Client.Process = d.Process
	for i := range d.Records {
		r := d.Records[i].back()
		if r.Warmup {
			run.Warmup = append(run.Warmup, r)
			continue
		}
		if n := len(run.Records); n < len(w.Texts) { // in the same order
			r.Text = w.Texts[n]
		}
		run.Records = append(run.Records, r)
	}
	return run, nil
}

func (t target) back() probes.Target {
	out := probes.Target{
		Name: t.Name, Pool: t.Pool, Environment: probes.Environment(t.Environment), Backend: t.Backend, BaseURL: t.BaseURL, Labels: t.Labels,
		Connection: probes.Connection{Policy: probes.ConnectionPolicy(t.Connection)},
	}
	if t.Site != nil {
		out.Site = *t.Site
	}
	if t.Model != nil {
		out.Model = *t.Model
	}
	return out
}
