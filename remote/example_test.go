package remote_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// A service sends its entries to a receiver. When the service has ended, the receiver
// has a file with the entries.
func ExampleReceiver() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	receiver := remote.Receiver{Dir: dir, OnReceived: func(r remote.Received) {
		fmt.Println(r.Entries, "entries", r.Err)
		stop()
	}}
	l, err := receiver.Listen("tcp://127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- receiver.Serve(ctx, l) }()

	sender, err := remote.NewSender("tcp://"+l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	rec := recorder.Stream(&recorder.Options{Tee: sender})
	if _, err := rec.Append(&format.TraceEntry{Metadata: format.Metadata{Name: "hello"}}); err != nil {
		log.Fatal(err)
	}
	if err := rec.Close(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(sender.Stats().Sent, "sent", <-served)
	// Output:
	// 3 entries <nil>
	// 2 sent <nil>
}

// A service writes a file, and also sends its entries over TLS, with a token.
func ExampleNewSender() {
	sender, err := remote.NewSender("tls://traces.example:6142", &remote.SenderOptions{
		Token:     os.Getenv("TOKEN"),
		MaxBuffer: 32 << 20,
		OnError:   func(err error) { log.Print(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	rec, err := recorder.Create("app.et", &recorder.Options{Tee: sender})
	if err != nil {
		log.Fatal(err)
	}
	defer rec.Close(context.Background())
}
