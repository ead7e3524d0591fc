package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	largestFrame = 256 << 10 // bytes of a line from the client
	mostCalls    = 256       // calls without an answer: before one is answered, no other call is accepted
)

// frames is a connection with a line for each message, as the Model Context Protocol defines it for standard input and
// output. The transports of package mcp end at a line that is too long or is not a message, queue calls without a
// limit, and drop unanswered calls when the input ends. This connection does none of that.
type frames struct {
	c     *console
	in    *bufio.Reader
	calls sync.Map      // has the ids of calls that are not answered
	open  chan struct{} // has an element for each of these calls
	write sync.Mutex
}

func newFrames(c *console) *frames {
	return &frames{c: c, in: bufio.NewReaderSize(c.in, largestFrame), open: make(chan struct{}, mostCalls)}
}

func (f *frames) Connect(context.Context) (mcp.Connection, error) { return f, nil }

// Read returns the next message, or io.EOF if the input has ended and all calls are answered.
func (f *frames) Read(context.Context) (jsonrpc.Message, error) {
	for {
		line, err := f.in.ReadSlice('\n')
		if len(line) == 0 {
			for range mostCalls {
				f.open <- struct{}{}
			}
			return nil, io.EOF
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			f.c.say("skip a message of the client: it has more than %d bytes", largestFrame)
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = f.in.ReadSlice('\n')
			}
			continue
		}
		m, err := jsonrpc.DecodeMessage(bytes.Clone(line))
		if call, ok := m.(*jsonrpc.Request); ok && call.IsCall() {
			if _, used := f.calls.LoadOrStore(call.ID, true); used {
				err = errors.New("its id is in use")
			} else {
				f.open <- struct{}{}
			}
		}
		if err == nil {
			return m, nil
		}
		f.c.say("skip a message of the client: %s", err) // an answer without an id would be no message
	}
}

// Write writes a message. It does not return errors of the output: after such an error, package mcp would write no
// other answers, and Read would wait for them. If the client is gone, the input ends as well.
func (f *frames) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if answer, ok := m.(*jsonrpc.Response); ok {
		f.calls.Delete(answer.ID) // before the write: the client may use the id again as soon as it has the answer
		defer func() { <-f.open }()
	}
	f.write.Lock()
	defer f.write.Unlock()
	_, _ = f.c.out.Write(append(b, '\n'))
	return nil
}

func (*frames) Close() error { return nil }

func (*frames) SessionID() string { return "" }
