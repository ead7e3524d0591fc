package redact_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/redact"
)

func TestParse(t *testing.T) {
	p, err := redact.Parse([]byte(`{"keys":["card.*"],"allow":["x.token"],"values":[{"name":"card","pattern":"[0-9]{16}","luhn":true}],"hash_key":"0123456789abcdef"}`))
	expect.Must(t, err)
	r := redact.New(p, nil)
	if r.Key("card.x") != redact.Replace || r.Key("x.token") != redact.Keep || r.Key("y.token") != redact.Replace {
		t.Error("the keys are not those of the file")
	}
	if got := r.Text("4111111111111111 4111111111111112"); !strings.HasPrefix(got, "[redacted ") || !strings.HasSuffix(got, "] 4111111111111112") {
		t.Errorf("got %q", got)
	}
	if p, err := redact.Parse([]byte(`{"default":false}`)); err != nil || redact.New(p, nil) != nil {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestParseSaysWhereItIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		``:                             "at offset 0: EOF",
		`{"keys":["a"`:                 "at offset 12: unexpected EOF",
		`{"keys":"a"}`:                 "at offset 11: json: cannot unmarshal string into Go struct field .keys of type []string",
		`{"key":["a"]}`:                `at offset 13: json: unknown field "key"`,
		`{} {}`:                        "at offset 4: unexpected text after the JSON object",
		`{"values":[{"pattern":"("}]}`: "values[0].pattern: error parsing regexp: missing closing ): `(`",
		`{"values":[{"name":"x"}]}`:    "values[0].pattern: expected a regular expression, found an empty text",
		`{"hash_key":"short"}`:         "hash_key: expected at least 16 bytes, found 5",
	} {
		_, err := redact.Parse([]byte(text))
		if fe, ok := errors.AsType[*redact.FileError](err); !ok || fe.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	name := hosttest.Path(t, "policy.json")
	expect.Is(t, expect.Err(redact.Open(name)), os.ErrNotExist, "redact.Open")
	expect.Must(t, os.WriteFile(name, []byte(`{"default":false,"keys":["a"]}`), 0o600))
	p, err := redact.Open(name)
	if err != nil || redact.New(p, nil).Key("a") != redact.Replace {
		t.Errorf("got %v, %v", p, err)
	}
	expect.Must(t, os.WriteFile(name, make([]byte, 1<<20+1), 0o600))
	expect.Says(t, expect.Err(redact.Open(name)), "larger", "redact.Open")
	for name, want := range map[string]*redact.Policy{"": redact.Default(), "default": redact.Default(), "off": redact.Off} {
		if p, err := redact.Open(name); p != want || err != nil {
			t.Errorf("%q: got %v, %v", name, p, err)
		}
	}
}

// TestHostileTexts checks that searching a text takes time in proportion to its length. It does not measure time: it
// runs itself with coverage counters, and compares how often each block of code runs for a text of four times the length.
func TestHostileTexts(t *testing.T) {
	const env = "ENTRACE_TEST_HOSTILE"
	if size, err := strconv.Atoi(os.Getenv(env)); err == nil {
		searchHostileTexts(size)
		return
	}
	if _, err := exec.LookPath("go"); err != nil || testing.Short() {
		t.Skip("it builds a program: ", err)
	}
	run := func(size, name string, args ...string) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), env+"="+size)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	exe, profile := hosttest.Path(t, "hostile.exe"), hosttest.Path(t, "profile")
	run("", "go", "test", "-c", "-o", exe, "-cover", "-covermode=count", "-coverpkg=.,bytes,regexp,strings,unicode/utf8", ".")
	counts := make(map[string]int)
	for _, size := range []string{"8192", "32768"} {
		run(size, exe, "-test.run=^TestHostileTexts$", "-test.coverprofile="+profile)
		text, err := os.ReadFile(profile)
		expect.Must(t, err)
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			n, _ := strconv.Atoi(words[len(words)-1])
			if fewer, ok := counts[words[0]]; ok && n > 6*fewer+10_000 {
				t.Errorf("%s runs %d times, and for a quarter of the text %d times", words[0], n, fewer)
			}
			counts[words[0]] = n
		}
	}
	if len(counts) < 100 {
		t.Errorf("%d blocks of code were counted", len(counts))
	}
}

// searchHostileTexts searches texts of the given size.
func searchHostileTexts(size int) {
	r := redact.New(nil, nil)
	for _, part := range []string{
		"=", ":", "://", "a:", `"a":`, `"token":"`, `"token":{`, "--", "--a", "bearer ", "basic ", "-----BEGIN ", "-----BEGIN PRIVATE KEY", "eyJ-", "sk-", "dp.pt.", "x@tcp(", "{a:",
		"token=", `\"`, "Cookie: ", `"a: `, "https://a", "[", "{", `{"a":`, `["`, "eyJaaaaaaaaaaa.", "AKIA",
		"password:\n", "password: |\n ", `password:\n`, "token: [", "a:\n-token:\n - ", "token: !a ", "\t=\t", "session=", "pass:", "code=", "?code=12345678&", "%25", "password%3D%26", "1:12345:",
		"@/", "@(", "a:b@(", "</", "</a", ">12345678</a", "-p", "login -p ", "mysql -p1", `","`, `"token","`, "password ", "passw", "_ke", "https://hook",
		"secret:\n secret:", "\n  x secret:",
	} {
		s := strings.Repeat(part, size/len(part))
		r.Text(s)
		r.Text("{" + s + "}")
		r.JSON(redact.Search, "a", "["+s+"]")
	}
	deep := strings.Repeat(`{"`+strings.Repeat("a", 1000)+`":`, 60) + "{" + strings.Repeat(`"a":1,`, size/10) + `"a":1}` + strings.Repeat("}", 60)
	r.Text(deep)
}
