// Command record writes an execution trace in which a span waits 100 ms for a mutex that another span holds:
//
//	GOTOOLCHAIN=go1.24.9 go run -trimpath main.go ../go1.24.trace
package main

import (
	"context"
	"os"
	"runtime/trace"
	"sync"
	"time"
)

func span(ctx context.Context, name, id string, fn func(ctx context.Context)) {
	trace.Log(ctx, "otel.span", id)
	ctx, task := trace.NewTask(ctx, name)
	defer task.End()
	fn(ctx)
}

func main() {
	f, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if err := trace.Start(f); err != nil {
		panic(err)
	}
	span(context.Background(), "request", "0000000000000001", func(ctx context.Context) {
		var mu sync.Mutex
		held := make(chan int)
		go span(ctx, "reindex", "0000000000000002", func(context.Context) {
			mu.Lock()
			close(held)
			time.Sleep(100 * time.Millisecond)
			mu.Unlock()
		})
		<-held
		mu.Lock()
		mu.Unlock()
	})
	trace.Stop()
	if err := f.Close(); err != nil {
		panic(err)
	}
}
