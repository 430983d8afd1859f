//go:build !linux

package truth

func newWaiter(bool) (waiter, error) { return newTimerWaiter(), nil }
