package prom

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestScrapersThatGoAwayAreNoError(t *testing.T) {
	var out bytes.Buffer
	log := scrapeLog{slog.New(slog.NewTextHandler(&out, nil))}
	log.Println("error encoding and sending metric family:", fmt.Errorf("write: %w", io.ErrClosedPipe))
	if out.Len() > 0 {
		t.Errorf("a scraper that went away is logged as %q", out.String())
	}
	log.Println("error gathering metrics:", errors.New("a broken collector"))
	if !strings.Contains(out.String(), "level=ERROR") || !strings.Contains(out.String(), "a broken collector") {
		t.Errorf("a broken collector is logged as %q, want an error", out.String())
	}
}
