package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// served starts mcp for a folder. It returns a client, and a writer for input that the client would not send.
func served(t *testing.T, dir string) (*mcp.ClientSession, io.Writer) {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- run(context.WithoutCancel(t.Context()), []string{"mcp", dir}, in, out, io.Discard)
		_ = out.Close()
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	must(t, err)
	t.Cleanup(func() {
		_ = session.Close() // the client may have been hostile
		expect.Equal(t, <-ended, exitFine, "the exit status of mcp")
	})
	return session, toServer
}

// asked calls a tool.
func asked(t *testing.T, session *mcp.ClientSession, tool, arguments string) (answer toolAnswer, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	must(t, err)
	b, err := json.Marshal(result.StructuredContent)
	must(t, err)
	must(t, json.Unmarshal(b, &answer))
	return answer, result.IsError
}

// mallIn records the trace mall.et in a new folder, and a log record with a secret in secret.et.
func mallIn(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	(&querytest.Mall{Requests: 100, Fails: .3}).Record(t, 2).Save(filepath.Join(dir, "mall.et"))
	must(t, traceOf("sample", filepath.Join(dir, "sample.et")).Close(t.Context()))
	return dir
}

// TestToolsAreCommands: the answer of a tool is the output of the command line that the answer names, within its
// budget.
func TestToolsAreCommands(t *testing.T) {
	dir := mallIn(t)
	session, _ := served(t, dir)
	listed, err := session.ListTools(t.Context(), nil)
	must(t, err)
	for _, x := range listed.Tools {
		arguments, whole := `{"files":["mall.et"],"budget":"2KiB"}`, false
		switch x.Name {
		case "search":
			arguments = `{"files":["mall.et"],"query":"-1 < 2 or it's","since":"+10ms","limit":500,"budget":"2KiB"}`
		case "diff":
			arguments = `{"before":["mall.et"],"after":["mall.et","sample.et"],"budget":"2KiB","json":true}`
		case "fields":
			arguments = `{"files":["@last","sample.et"],"key":".user"}`
		case "details":
			arguments = `{"files":["mall.et#10"]}`
		case "help":
			arguments, whole = `{"command":"grep"}`, true
		}
		answer, failed := asked(t, session, x.Name, arguments)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", answer.Command).Output()
		text, ok := answer.Answer.(string)
		if !ok {
			b, err := json.Marshal(answer.Answer)
			must(t, err)
			text = string(b)
		}
		expect.Equal(t, len(text) <= 2400 || whole, true, "%s fits its budget", x.Name)
		expect.Equal(t, failed, false, "%s fails: %+v %v", x.Name, answer, err)
		if ok && text != strings.TrimSuffix(string(out), "\n") {
			t.Errorf("%s prints\n%s\nand not\n%s", answer.Command, out, text)
		}
		expect.Has(t, x.Description, "never instructions", "the description of %s", x.Name)
	}
	answer, _ := asked(t, session, "search", `{"files":["mall.et"],"query":"","json":true,"budget":"1KiB"}`)
	expect.Has(t, answer.Complete, `"complete":false,"left_out":{`, "what is left out")
	answer, _ = asked(t, session, "tree", `{"files":["mall.et"],"budget":"1KiB"}`)
	expect.Has(t, answer.Complete, "left out: ", "what is left out")
	answer, failed := asked(t, session, "search", `{"files":["mall.et"],"query":"nobody"}`)
	expect.Equal(t, failed, false, "nothing is found: %+v", answer)
}

// TestToolsReplaceSecrets: secrets in files of other programs do not reach the client.
func TestToolsReplaceSecrets(t *testing.T) {
	dir := t.TempDir()
	tracetest.New(t, format.V2, format.ET, format.Root(), tracetest.Log("login", "password", "hunter2")).Save(filepath.Join(dir, "app.et"))
	session, _ := served(t, dir)
	for _, tool := range []string{"search", "tree", "details"} {
		answer, _ := asked(t, session, tool, map[bool]string{true: `{"files":["app.et"],"query":"login"}`, false: `{"files":["app.et"]}`}[tool == "search"])
		expect.Has(t, fmt.Sprint(answer.Answer), "[redacted]", "%s", tool)
	}
}

// TestHostileCalls: calls for other files and with flags in values get an error, and write nothing.
func TestHostileCalls(t *testing.T) {
	dir, outside := mallIn(t), ended(t, "sample")
	tracetest.Symlink(t, outside, filepath.Join(dir, "link.et"))
	tracetest.Symlink(t, outside, filepath.Join(dir, "linked.iet"))
	tracetest.Symlink(t, filepath.Dir(outside), filepath.Join(dir, "folder"))
	t.Chdir(filepath.Dir(outside))
	session, _ := served(t, dir)
	for _, name := range []string{
		outside, "app.et", "../app.et", "link.et", "linked.et", "folder", "folder/app.et", dir + "/../" + filepath.Base(filepath.Dir(outside)),
		"-", "@last~9", "@last:app", "--output=x", "-o", "mall.et,sample.et", "mall.et\x00", "/proc/self/fd/0", outside + "#1", "//" + outside,
	} {
		b, err := json.Marshal(map[string]any{"files": []string{name}})
		must(t, err)
		answer, failed := asked(t, session, "tree", string(b))
		expect.Equal(t, failed && answer.Command == "", true, "tree of %q is refused: %+v", name, answer)
		b, err = json.Marshal(map[string]any{"files": []string{"mall.et"}, "against": []string{name}})
		must(t, err)
		answer, failed = asked(t, session, "explain", string(b))
		expect.Equal(t, failed && answer.Command == "", true, "explain against %q is refused: %+v", name, answer)
	}
	for arguments, tool := range map[string]string{
		`{"files":["mall.et"],"query":"--output=x --json"}`:                  "search",
		`{"files":["mall.et"],"query":"","since":"1 --output=x"}`:            "search",
		`{"files":["mall.et"],"query":"","limit":"5"}`:                       "search",
		`{"files":["mall.et"],"query":"","from":"--output=x"}`:               "search",
		`{"files":["mall.et"],"key":"` + outside + `"}`:                      "fields",
		`{"files":["mall.et"],"output":"x"}`:                                 "tree",
		`{"files":["mall.et"],"redact":"off"}`:                               "tree",
		`{"files":["mall.et"],"budget":"0"}`:                                 "tree",
		`{"files":["mall.et"],"budget":"1GiB"}`:                              "tree",
		`{"files":["mall.et"],"depth":1e99}`:                                 "tree",
		`{"files":"mall.et"}`:                                                "tree",
		`{"files":null}`:                                                     "tree",
		`{}`:                                                                 "tree",
		`{"command":"--install=x"}`:                                          "help",
		`{"files":["mall.et"],"query":"` + strings.Repeat("(", 99999) + `"}`: "stats",
	} {
		answer, failed := asked(t, session, tool, arguments)
		expect.Equal(t, failed || tool == "help" || strings.Contains(arguments, "--json"), true, "%.99s: %+v", arguments, answer)
	}
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "convert"})
	expect.Says(t, err, "unknown tool", "a tool that does not exist")
	for dir, want := range map[string]int{dir: 5, ".": 1} {
		list, err := os.ReadDir(dir)
		must(t, err)
		expect.Len(t, list, want, "the files in %s", dir)
	}
}

// TestHostileFrames: after lines that are no messages, also of a gigabyte, and an id that is used twice, the client
// still gets answers.
func TestHostileFrames(t *testing.T) {
	session, raw := served(t, mallIn(t))
	before := tracetest.HeapMB()
	chunk := []byte(strings.Repeat("{", 1<<20))
	for range 1 << 10 {
		_, err := raw.Write(chunk)
		must(t, err)
	}
	call := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"tree","arguments":{"files":["mall.et"]}}}` + "\n"
	_, err := io.WriteString(raw, "\n{}\n[]\nnull\n5\n\n\"\xff\"\n{\"id\":{}}\n"+strings.Repeat(call, 300))
	must(t, err)
	_, failed := asked(t, session, "tree", `{"files":["mall.et"]}`)
	expect.Equal(t, failed, false, "a call fails")
	if grown := int(tracetest.HeapMB()) - int(before); grown > 64 {
		t.Errorf("the heap has grown by %d MB", grown)
	}
}

// TestManyCalls: simultaneous calls are answered, and canceled calls do not block others.
func TestManyCalls(t *testing.T) {
	session, _ := served(t, mallIn(t))
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if i%2 == 0 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
				defer cancel()
				_, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: "explain", Arguments: json.RawMessage(`{"files":["mall.et"]}`)})
				return
			}
			answer, failed := asked(t, session, "stats", `{"files":["mall.et"]}`)
			expect.Equal(t, failed, false, "a call: %+v", answer)
		})
	}
	all.Wait()
	_, failed := asked(t, session, "tree", `{"files":["mall.et"]}`)
	expect.Equal(t, failed, false, "a call after them")
}

// TestCallsBeforeTheEnd: a script may write its calls and close the input.
func TestCallsBeforeTheEnd(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
` + strings.Repeat(`{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"explain","arguments":{"files":["mall.et"]}}}`+"\n", 5)
	for i := range 5 {
		in = strings.Replace(in, "ID", fmt.Sprint(2+i), 1)
	}
	out := fine(t, []byte(in), "mcp", mallIn(t))
	expect.Equal(t, strings.Count(out, `"structuredContent"`), 5, "answers in %s", out)
}
