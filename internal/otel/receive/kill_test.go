package receive_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
)

// killedDir names the folder for the child process TestKilledReceiver.
const killedDir = "ENTRACE_TEST_RECEIVE_DIR"

// TestAcknowledgedRecordsSurviveKill sends requests of both protocols to a child process until the child is killed.
// The child suspends and resumes files all the time. Each service has one file. Acknowledged records must be in the
// files.
func TestAcknowledgedRecordsSurviveKill(t *testing.T) {
	for round := range hosttest.InCI(3, 12) {
		dir := t.TempDir()
		address, _, kill := startReceiver(t, dir)
		acknowledged := sendUntilGone(t, address, 10+7*round, kill)
		err := recorder.RecoverFolder(t.Context(), dir, func(_ *recorder.Report, err error) {
			expect.Is(t, err, nil, "round %d", round)
		})
		must(t, err)
		found := make(map[string]int)
		files := readAll(t, dir)
		if len(files) > 3 {
			t.Errorf("round %d: three services have %d files", round, len(files))
		}
		for _, entries := range files {
			for _, name := range names(entries) {
				found[name]++
			}
		}
		for _, name := range acknowledged {
			expect.Equal(t, found[name], 1, "round %d: times that %s is in the files", round, name)
		}
	}
}

// sendUntilGone sends requests until the server no longer answers, and returns the names of the acknowledged spans.
// After n answers it calls the function enough.
func sendUntilGone(t *testing.T, address string, n int, enough func()) (acknowledged []string) {
	t.Helper()
	var mu sync.Mutex
	var senders sync.WaitGroup
	answers := 0
	for sender := range 4 {
		two := sender%2 == 0
		c := client(t, two)
		senders.Go(func() {
			for i := 0; ; i++ {
				var records [][]byte
				var list []string
				for j := range 1 + i%5 {
					name := fmt.Sprintf("span %d %d %d", sender, i, j)
					records, list = append(records, span(1+j+8*i+sender<<27, 0, name)), append(list, name)
				}
				b := request(fmt.Sprint("service", (sender+i)%3), records...)
				path, kind := "/v1/traces", protobuf
				if two {
					b, path, kind = framed(0, b), traceExport, "application/grpc"
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, bytes.NewReader(b))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", kind)
				resp, err := c.Do(req)
				if err != nil {
					return
				}
				var answer bytes.Buffer
				_, err = answer.ReadFrom(resp.Body)
				_ = resp.Body.Close()
				if err != nil || two && resp.Trailer.Get("Grpc-Status") != "0" {
					return
				}
				if resp.StatusCode != http.StatusOK {
					t.Errorf("got %d", resp.StatusCode)
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, list...)
				answers++
				if answers == n {
					enough()
				}
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	if answers < n {
		t.Errorf("got %d answers", answers)
	}
	return acknowledged
}

// startReceiver starts a child process that receives, and returns its address and its process id.
func startReceiver(t *testing.T, dir string) (address string, pid int, kill func()) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestKilledReceiver$")
	cmd.Env = append(os.Environ(), killedDir+"="+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, expect.Err(fmt.Fscanln(out, &address)))
	return address, cmd.Process.Pid, sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// TestKilledReceiver is the child process of TestAcknowledgedRecordsSurviveKill.
func TestKilledReceiver(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir == "" {
		return // not a child process
	}
	limit(t)
	f, err := receive.ToFolder(receive.FolderOptions{Dir: dir, MaxOpen: 2})
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	fmt.Println(l.Addr())
	_ = receive.NewServer(f, receive.Options{}).Serve(context.Background(), l) // until the process is killed
}
