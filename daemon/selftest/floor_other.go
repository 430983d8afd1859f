//go:build !linux

package selftest

import (
	"context"
	"errors"

	"github.com/inferbeat/inferbeat/probes"
)

// sendFloor needs epoll.
func sendFloor(context.Context, probes.Clock, load) ([]Exchange, error) {
	return nil, errors.New("the floor is measured on Linux only")
}
