package selftest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/inferbeat/inferbeat/probes"
	"github.com/inferbeat/inferbeat/probes/truth"
	"github.com/inferbeat/inferbeat/probes/wire"
)

// workerVariable tells a process of this program that it is a child of a self
// test. Its orders come on descriptor 3 and its answers leave on 4.
const (
	workerVariable = "INFERBEAT_SELFTEST_WORKER"
	workerValue    = "1"
	ordersFD       = 3
	answersFD      = 4
)

// order is what a child is told first.
type order struct {
	Serve *truth.Config // be the server
	Load  *load         // be a client
}

// hello is the answer of a child that serves.
type hello struct {
	Address string
	Start   time.Duration // of its clock, on CLOCK_MONOTONIC
}

// load is what a client sends.
type load struct {
	Client  string // a name of clients
	Address string
	Streams int // closed loop
	// Gap is from the start of one stream to the next: all at once would measure the
	// burst, and not the streams.
	Gap      time.Duration
	Requests int
	Rate     float64 // requests a second in an open loop; 0 is the closed loop
	Tokens   int
	Backend  string        // dialect of the measuring path
	Limit    time.Duration // when to give up
}

// outcome is what a client gives back.
type outcome struct {
	Start     time.Duration // of its clock, on CLOCK_MONOTONIC
	Exchanges []Exchange
	Usage     Usage
}

// taken are the streams of a server, and what they cost it.
type taken struct {
	Streams []truth.Stream
	CPU     time.Duration
}

// failure carries an error over a pipe; it is empty when there is none.
type failure string

// clients are the ways to send a load; each counts in its own process.
var clients = map[string]func(ctx context.Context, clock probes.Clock, l load) ([]Exchange, error){
	clientOwn:   sendOwn,
	clientNaive: sendNaive,
	clientFloor: sendFloor,
}

// Names of clients.
const (
	clientOwn   = "inferbeat"
	clientNaive = "naive Go"
	clientFloor = "floor"
	clientBench = "bench_serving"
)

// Worker does the work of a child process and reports whether this process is
// one. A program that calls Run must call Worker before anything else when it is
// started with Options.Command.
func Worker(ctx context.Context, env []string) (isWorker bool, err error) {
	if !slices.Contains(env, workerVariable+"="+workerValue) {
		return false, nil
	}
	orders, answers := os.NewFile(ordersFD, "orders"), os.NewFile(answersFD, "answers")
	defer answers.Close()
	if _, _, err := wire.RaiseDescriptorLimit(); err != nil {
		return true, fmt.Errorf("raise the limit of open files: %w", err)
	}
	var o order
	in := gob.NewDecoder(orders)
	if err := in.Decode(&o); err != nil {
		return true, fmt.Errorf("read order: %w", err)
	}
	out := gob.NewEncoder(answers)
	work := func() error { return errors.New("the order is empty") }
	switch {
	case o.Serve != nil:
		work = func() error { return serveTruth(*o.Serve, in, out) }
	case o.Load != nil:
		work = func() error { return sendLoad(ctx, *o.Load, out) }
	}
	if err := work(); err != nil {
		return true, out.Encode(failure(err.Error()))
	}
	return true, nil
}

// serveTruth serves until the orders end.
func serveTruth(c truth.Config, orders *gob.Decoder, answers *gob.Encoder) error {
	clock := probes.NewClock()
	start, err := systemStart(clock)
	if err != nil {
		return err
	}
	server, err := truth.New(c, clock)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-served
	}()
	before := StartUsage()
	if err := encode(answers, hello{listener.Addr().String(), start}); err != nil {
		return err
	}
	for {
		var again bool
		if err := orders.Decode(&again); err != nil {
			return nil // the parent has closed its end, or is gone
		}
		if err := encode(answers, taken{server.Take(), before.Stop().CPU}); err != nil {
			return err
		}
		before = StartUsage()
	}
}

// sendLoad is the life of a client process.
func sendLoad(ctx context.Context, l load, answers *gob.Encoder) error {
	send, ok := clients[l.Client]
	if !ok {
		return fmt.Errorf("there is no client %q", l.Client)
	}
	ctx, cancel := context.WithTimeout(ctx, l.Limit)
	defer cancel()
	clock := probes.NewClock()
	start, err := systemStart(clock)
	if err != nil {
		return err
	}
	before := StartUsage()
	exchanges, err := send(ctx, clock, l)
	usage := before.Stop()
	if err != nil {
		return err
	}
	return encode(answers, outcome{start, exchanges, usage})
}

// encode writes a message; an empty failure goes first.
func encode(to *gob.Encoder, message any) error {
	return errors.Join(to.Encode(failure("")), to.Encode(message))
}

// child is a process that was given an order.
type child struct {
	command *exec.Cmd
	orders  *os.File
	out     *gob.Encoder
	in      *gob.Decoder
	answers *os.File
	stderr  strings.Builder
}

// startChild starts this program again and gives it an order. ctx ends it. Its work
// begins inside of the cage, if there is one.
func startChild(ctx context.Context, argv []string, within *cage, o order) (_ *child, err error) {
	if len(argv) == 0 {
		return nil, errors.New("start a process of the self test: no command given")
	}
	ordersIn, ordersOut, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer ordersIn.Close()
	answersIn, answersOut, err := os.Pipe()
	if err != nil {
		_ = ordersOut.Close()
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer answersOut.Close()
	c := &child{orders: ordersOut, out: gob.NewEncoder(ordersOut), answers: answersIn, in: gob.NewDecoder(answersIn)}
	c.command = exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.command.Env = append(os.Environ(), workerVariable+"="+workerValue)
	c.command.ExtraFiles = []*os.File{ordersIn, answersOut}
	c.command.Stderr = &c.stderr
	if err := c.command.Start(); err != nil {
		_, _ = ordersOut.Close(), answersIn.Close()
		return nil, fmt.Errorf("start a process of the self test: %w", err)
	}
	if within != nil {
		if err := within.hold(c.command.Process.Pid); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	if err := c.out.Encode(o); err != nil {
		return nil, errors.Join(fmt.Errorf("give an order: %w", err), c.stop())
	}
	return c, nil
}

// answer waits for the next message of the child.
func (c *child) answer(into any) error {
	var failed failure
	if err := c.in.Decode(&failed); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it ended without an answer")
		}
		return fmt.Errorf("ask a process of the self test: %w%s", err, c.said())
	}
	if failed != "" {
		return errors.New(string(failed))
	}
	if err := c.in.Decode(into); err != nil {
		return fmt.Errorf("read the answer of a process of the self test: %w", err)
	}
	return nil
}

// said is what the child has complained about; it is complete once the child has ended.
func (c *child) said() string {
	_ = c.orders.Close()
	_ = c.command.Wait()
	if text := strings.TrimSpace(c.stderr.String()); text != "" {
		return ": " + text
	}
	return ""
}

// stop lets the child end and waits for it.
func (c *child) stop() error {
	_ = c.orders.Close()
	_ = c.answers.Close()
	if c.command.ProcessState != nil {
		return nil // waited for already
	}
	if err := c.command.Wait(); err != nil {
		return fmt.Errorf("end a process of the self test: %w", err)
	}
	return nil
}
