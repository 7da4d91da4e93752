// Package stdio is MCP over standard input and output in front of an endpoint of
// the gateway: messages are passed on as the bytes that they are, a line each on
// this side, over Streamable HTTP on the other. It outlives the host: a session
// is opened again when there is a host again.
package stdio

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/plughost/plughost/shared/wire"
)

const (
	// maxLine is how many bytes a message may have.
	maxLine = 64 << 20
	// lastWords is what calls under way get when there is no more input.
	lastWords = 10 * time.Second
	// unread is what the end may take after that, while the client does not read.
	unread = 3 * time.Second
	// keepAlive is how often a session is used that its client leaves idle:
	// the client is there as long as this process is.
	keepAlive = 10 * time.Minute
	// codeUnavailable is the JSON-RPC error of a call that could not be made or
	// whose host has ended, in the range left to implementations.
	codeUnavailable = -32000
)

// Relay passes messages on between a client on standard input and output and an
// endpoint that speaks Streamable HTTP.
type Relay struct {
	// Endpoint is a URL that HTTP reaches.
	Endpoint string
	HTTP     *http.Client
	// Await returns when there is a host, perhaps another than before, or says
	// why there is none.
	Await func(context.Context) error
	// Warn is told what is no answer to any request.
	Warn func(format string, args ...any)

	in    *bufio.Reader
	out   *lines
	alive time.Duration // between two signs of life; keepAlive but in tests
	last  time.Duration // for calls when there is no more input; lastWords but in tests

	mu       sync.Mutex
	session  *session
	inFlight map[string]context.CancelFunc // by the bytes of their ids
	listens  context.Context               // as long as there is input
}

// Run passes messages on until in ends, or nobody reads out any more. It fails if out
// cannot be written to otherwise, or ctx ends.
func (r *Relay) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.alive, r.last = cmp.Or(r.alive, keepAlive), cmp.Or(r.last, lastWords)
	var endListening context.CancelFunc
	r.listens, endListening = context.WithCancel(ctx)
	r.in = bufio.NewReader(in)
	r.out = &lines{w: out, failed: cancel}
	r.session = newSession(ctx, r)
	r.inFlight = make(map[string]context.CancelFunc)
	messages := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		err := r.read(ctx, messages)
		// Also what keeps messages from being passed on.
		time.AfterFunc(r.last, func() { cancel(errLeft) })
		ended <- err
	}()
	var calls sync.WaitGroup
	err := r.pass(ctx, messages, ended, &calls)
	endListening()
	r.finish(&calls, cancel)
	return err
}

// read reads messages, a line each. One that never returns, since its input does
// not end, ends with the process.
func (r *Relay) read(ctx context.Context, messages chan<- []byte) error {
	for {
		line, err := readLine(r.in)
		if errors.Is(err, errTooLong) {
			r.fail(nil, wire.CodeInvalidRequest, err.Error())
			continue
		}
		if len(line) > 0 {
			select {
			case messages <- line:
			case <-ctx.Done():
				return nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read standard input: %w", err)
		}
	}
}

// pass handles messages in their order, but for the answers to requests.
func (r *Relay) pass(ctx context.Context, messages <-chan []byte, ended <-chan error, calls *sync.WaitGroup) error {
	for {
		select {
		case line := <-messages:
			r.take(ctx, line, calls)
		case err := <-ended:
			return err
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, errLeft) {
				return err
			}
			return nil
		}
	}
}

// finish lets calls under way end, in bounded time, and the session after them.
func (r *Relay) finish(calls *sync.WaitGroup, cancel context.CancelCauseFunc) {
	within(r.last, calls.Wait)
	cancel(nil)
	// What waits for a client that does not read ends with the process.
	within(unread, func() {
		calls.Wait()
		r.session.close()
	})
}

// within returns when do does, or when a time is over.
func within(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// take handles one message of the client.
func (r *Relay) take(ctx context.Context, line []byte, calls *sync.WaitGroup) {
	message, err := wire.Scan(line)
	var fault *wire.Error
	if errors.As(err, &fault) {
		r.fail(nil, fault.Code, fault.Error())
		return
	}
	switch {
	case message.Kind == wire.Request && string(message.Method) == methodInitialize:
		r.session.initialize(ctx, message)
	case message.Kind == wire.Request:
		sent := make(chan struct{})
		calls.Go(func() { r.call(ctx, message, sent) })
		<-sent // or what follows, such as its cancellation, could overtake it
	default:
		r.tell(ctx, message, calls)
	}
}

// call passes a request on, and its answer back.
func (r *Relay) call(ctx context.Context, message wire.Message, sent chan<- struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if string(message.Method) == methodListen { // it has no answer to wait for
		defer context.AfterFunc(r.listens, cancel)()
	}
	id := string(message.Bytes(message.ID))
	r.mu.Lock()
	r.inFlight[id] = cancel
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.inFlight, id)
		r.mu.Unlock()
	}()
	announce := sync.OnceFunc(func() { close(sent) })
	defer announce()
	r.session.remember(message)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { announce() }})
	var err error
	if string(message.Method) == methodListen && r.session.isStateless() {
		err = (&listening{session: r.session, request: message}).run(ctx, announce)
	} else {
		err = r.session.exchange(ctx, message, announce)
	}
	if err != nil && ctx.Err() == nil {
		r.fail(message.Bytes(message.ID), codeUnavailable, err.Error())
	}
}

// tell passes on what has no answer. What waits for a host is overtaken by what
// follows, so that it holds up no cancellation.
func (r *Relay) tell(ctx context.Context, message wire.Message, passed *sync.WaitGroup) {
	switch method := string(message.Method); {
	case message.Kind == wire.Response:
		r.session.answer(ctx, message)
	case method == methodCancelled:
		r.cancel(message) // an answer would come in vain, if it came
		if !r.session.isStateless() {
			r.session.tell(ctx, message)
		}
	case method == methodProgress && !r.session.isStateless():
		r.session.tell(ctx, message)
	case method == methodInitialized: // what follows takes it for granted
		if r.passOn(ctx, message, func() {}) {
			r.session.initialized(message)
		}
	default:
		sent := make(chan struct{})
		announce := sync.OnceFunc(func() { close(sent) })
		passed.Go(func() {
			defer announce()
			r.passOn(ctx, message, announce)
		})
		<-sent
	}
}

// passOn passes on what is as good in a next session, and reports whether it did.
// waiting is called before that takes long.
func (r *Relay) passOn(ctx context.Context, message wire.Message, waiting func()) bool {
	if err := r.session.exchange(ctx, message, waiting); err != nil {
		r.lost(ctx, err)
		return false
	}
	return true
}

// lost says that a message was not passed on.
func (r *Relay) lost(ctx context.Context, why error) {
	if ctx.Err() == nil {
		r.Warn("a message could not be passed on: %v", why)
	}
}

// cancel ends a request: where there are no sessions that is also how it is said.
func (r *Relay) cancel(message wire.Message) {
	id, err := message.CancelledID()
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.inFlight[string(message.Bytes(id))]; cancel != nil {
		cancel()
	}
}

// deliver writes a message to the client.
func (r *Relay) deliver(message []byte) { r.out.write(wire.Line(message)) }

// fail answers a request with an error, or says of what is no request that it is
// at fault.
func (r *Relay) fail(id []byte, code int, reason string) {
	if id == nil {
		id = []byte("null")
	}
	r.out.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, jsonText(reason)))
}
