package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/redact"
)

// counts returns the counts of a Redactor.
func counts(r *redact.Redactor) map[string]uint64 {
	m := make(map[string]uint64)
	r.Each(func(rule string, n uint64) { m[rule] = n })
	return m
}

var secretKeys = []string{
	"authorization", "http.request.header.authorization", "Proxy-Authorization", "cookie", "http.request.header.set-cookie", "cookies",
	"password", "PASSWORD", "db.password", "user_passwd", "userPassword", "password2", "PGPASSWORD", "MYSQL_PWD", "passphrase",
	"secret", "client_secret", "clientSecret", "aws.secret_access_key", "AWS_SECRET_ACCESS_KEY", "vault.secret_id", "secrets",
	"token", "access_token", "accessToken", "refresh-token", "X-Auth-Token", "id_token", "APIToken", "csrf_token",
	"api-key", "x-api-key", "apiKey", "APIKey", "apikey", "api.key", "private_key", "privateKey", "ssh.private.key", "signing-key",
	"encryption_key", "AccountKey", "SharedAccessKey", "credential", "credentials", "aws.credentials.session", "jwt", "DB_PASS", "smtp.pass", "pass",
	"user[password]", "headers.x-api-key", "password.value", "session_id", "session_id.raw", "SESSION_ID2", "sentry.dsn", "DSN2",
}

var innocentKeys = []string{
	"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.token.type", "max_tokens", "token_count", "token.limit", "tokenizer",
	"tokens", "next_page_token", "page.token", "token_url", "token_endpoint", "k8s.secret.name", "secret.version", "secret_path",
	"password_changed_at", "password.length", "password_policy", "cookie_consent", "cookie.domain", "credential_type", "api_key_id",
	"aws.access_key_id", "public_key", "primary_key", "foreign.key", "key", "keyboard", "cache.key", "messaging.kafka.message.key", "monkey",
	"author", "authority", "authenticated", "auth.method", "session.id", "user.id", "http.request.method", "url.full", "compass", "passenger",
	"bypass", "pass_count", "secretary", "db.query.text", "server.address", "exception.message", "code.function.name", "enduser.role", "http.route",
}

func TestKeys(t *testing.T) {
	r := redact.New(nil, nil)
	for _, key := range secretKeys {
		if r.Key(key) != redact.Replace {
			t.Errorf("%s stays", key)
		}
	}
	for _, key := range innocentKeys {
		if r.Key(key) != redact.Search {
			t.Errorf("%s is replaced", key)
		}
	}
}

// TestGroupsMatterAsTheyShould: if Matters is false for a group, the verdict for a key is the same
// with the group and without it.
func TestGroupsMatterAsTheyShould(t *testing.T) {
	r := redact.New(nil, nil)
	keys := slices.Concat(secretKeys, innocentKeys)
	for _, group := range keys {
		if r.Matters(group) {
			continue
		}
		for _, key := range keys {
			if r.Key(group+"."+key) != r.Key(key) {
				t.Errorf("%s is judged otherwise in %s", key, group)
			}
		}
	}
}

// key returns n letters and digits that look like a token but give access to nothing.
func key(n int) string { return strings.Repeat("Zx9Qw7Lm3Vb5", 20)[:n] }

// aJWT returns a well-formed JSON Web Token that nobody has issued.
func aJWT() string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc.EncodeToString([]byte(`{"sub":"1234567890"}`)) + "." + key(43)
}

// aPEM returns a text that looks like a private key in PEM. It is concatenated, so that secret
// scanners do not find it in this file.
func aPEM(kind string) string {
	return "-----BEGIN " + kind + "PRIVATE KEY-----\n" + key(64) + "\n" + key(64) + "\n-----END " + kind + "PRIVATE KEY-----"
}

// TestTexts: exactly the parts between « and » are replaced.
func TestTexts(t *testing.T) {
	r := redact.New(nil, nil)
	for _, text := range []string{
		"«" + aJWT() + "»",
		"got " + "«" + aJWT() + "».",
		"id_token=«" + aJWT() + "»&state=x",
		"key:\n«" + aPEM("RSA ") + "»\nend",
		"«" + aPEM("") + "»",
		"«" + aPEM("OPENSSH ")[:90] + "»",
		`{"pem":"` + strings.ReplaceAll("«"+aPEM("EC ")+"»", "\n", `\n`) + `"}`,
		"https://«bob:hunter2»@example.com/x?y=1",
		"connect postgres://«app:p%40ss»@db:5432/shop: refused",
		"amqp://«" + key(24) + "»@mq",
		`fetch "https:\/\/«bob:hunter2»@example.com"`,
		"dial «root:pw@x»@tcp(db:3306)/shop",
		"GET /cb?state=1&access_token=«abc.def-123»&x=2",
		"GET /o?X-Amz-Signature=«0123abcd»&X-Amz-Date=20260101",
		"GET /b?sv=2024&sig=«Zm9vYmFy%3D»",
		`a?b=1\u0026token=«abcdef»\u0026c=2`,
		"curl -H 'Authorization: «Bearer " + key(30) + "»' https://example.com",
		"Authorization: «Basic dXNlcjpwYXNz»\r\nAccept: */*",
		"GET / HTTP/1.1\r\nCookie: «sid=abc; theme=dark»\r\nHost: x",
		"> X-Api-Key: «abcdef123456»",
		"Bearer «" + key(20) + "»",
		"sent bearer «abc123def456» to peer",
		"using Basic «YWRtaW46c2VjcmV0»",
		"login password=«hunter2» user=bob",
		"login password='«two words»' user=bob",
		`level=info secret="«a \"b\" c»" n=1`,
		"Server=db;User Id=sa;Password=«p4ss!w0rd»;Encrypt=true",
		"DefaultEndpointsProtocol=https;AccountName=x;AccountKey=«" + key(40) + "==»;EndpointSuffix=core",
		"aws_secret_access_key = «" + key(40) + "»",
		`db_password = "«hunter2 and more»"`,
		"api_key: '«" + key(20) + "»', region: 'eu'",
		"mysql --user root --password «hunter2» shop",
		"deploy --api-key=«abc» --verbose",
		"config {Host:db Port:5432 Password:«hunter2» TLS:true}",
		`{"user":"bob","password":"«hunter2»","n":3}`,
		`body {"user":"bob","password":"«hunter2»"} refused`,
		`{"request":"{\"token\":\"«abcdef»\"}"}`,
		`{'token': '«abcdef»'}`,
		"Authorization=«Bearer abcdef»",
		"id «AKIAIOSFODNN7EXAMPLE» used",
		"clone with ghp_ «ghp_" + key(36) + "»",
		"«github_pat_" + key(60) + "»",
		"«glpat-" + key(20) + "»", "«xoxb-123456789012-" + key(24) + "»", "«sk_live_" + key(24) + "»", "«AIza" + key(35) + "»",
		"«sk-ant-api03-" + key(60) + "»", "«sk-proj-" + key(60) + "»", "«hvs." + key(30) + "»", "«npm_" + key(36) + "»", "«dop_v1_" + key(64) + "»",
		"«SG." + key(22) + "." + key(43) + "»", "«hf_" + key(34) + "»", "«shpat_" + key(32) + "»", "«ya29." + key(40) + "»",
		"export API_TOKEN=«" + key(12) + "»",
		"password=«123456»",
	} {
		parts := regexp.MustCompile("«|»").Split(text, -1)
		var in, want strings.Builder
		for i, p := range parts {
			in.WriteString(p)
			if i%2 == 1 {
				p = redact.Mark
			}
			want.WriteString(p)
		}
		if got := r.Text(in.String()); got != want.String() {
			t.Errorf("%q\nbecomes %q\nwant    %q", in.String(), got, want.String())
		}
	}
}

func TestInnocentTexts(t *testing.T) {
	r := redact.New(nil, nil)
	for _, text := range []string{
		"GET /api/users/42?page=2&sort=name", "https://example.com:8443/path?x=1#top", "git@github.com:entrace-go/entrace.git", "ssh://git@example.com/x",
		"SELECT * FROM s WHERE token = $1 AND secret = s.secret", "expected token: 'function' here", "if token = newToken then", "test_a_long_name_of_a_test_in_snake_case_1",
		"password = required", "invalid password: too short", "password is required", "the token has expired", "tokens=1024 cached_tokens=12", "max_tokens=4096",
		"bearer authentication required", `WWW-Authenticate: Bearer realm="shop"`, "basic checks passed", "basic functionality",
		"0190d6f0-8f6e-7c4d-9a3b-5e2f1c0d9b8a", "4bf92f3577b34da6a3ce929d0e0e4736", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "github.com/entrace-go/entrace/internal/testkit/conformance",
		"SELECT * FROM users WHERE token = $1 AND id = 5", "SELECT password FROM users WHERE id=$1", "if token == nil {", "token=", "secret=true",
		"password=null", "retry=3 cookie=0", "key=user:42", "cache key=session-42", "2026-11-24T10:53:00Z INFO started", "a=b", "x", "", "=",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
		"--token-file /run/secrets/token", "--password-stdin", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
		"application/x-www-form-urlencoded; charset=utf-8", "kubernetes.io/service-account-token-controller", "eyJ", "AKIA", "skeleton-key-of-the-long-list",
		`{"token_count":5,"name":"bob"}`, `{"password":12345,"secret":true,"token":null}`, `[1,2,3]`, "user@example.com wrote", "mail to a:b@c",
		"sk-SK", "xapp-store", "Cookie: none", "authorization: denied", "Authorization: required for this path", "{Kind:token Name:x}", "map[a:1 b:2]",
		"s3://bucket/key=1/part=2", "service=shop/day=2026-11-24", "dapi", "key-value-store-with-a-very-long-name",
	} {
		if got := r.Text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if c := counts(r); len(c) > 0 {
		t.Errorf("counted %v", c)
	}
}

func TestJSON(t *testing.T) {
	r := redact.New(redact.Default().Keys("card.*", "*.iban").Allow("oauth.token"), nil)
	for _, c := range []struct{ in, want string }{
		{`{"a":{"password":"x","n":1}}`, `{"a":{"password":"[redacted]","n":1}}`},
		{`{"credentials":{"user":"a","n":1},"b":2}`, `{"credentials":"[redacted]","b":2}`},
		{`{"tokens":["a"],"secrets":["a","b"]}`, `{"tokens":["a"],"secrets":"[redacted]"}`},
		{`{"password":1,"secret":true,"jwt":null}`, `{"password":1,"secret":true,"jwt":null}`},
		{`{"api":{"key":"x"}}`, `{"api":{"key":"[redacted]"}}`},
		{`{"card":{"number":"1","holder":{"name":"b"}}}`, `{"card":{"number":"[redacted]","holder":"[redacted]"}}`},
		{`{"bank":{"iban":"DE1"}}`, `{"bank":{"iban":"[redacted]"}}`},
		{`{"oauth":{"token":"keep"}}`, `{"oauth":{"token":"keep"}}`},
		{`["--password","x","--n","1"]`, `["--password","[redacted]","--n","1"]`},
		{`{"cmd":["mysql","--password=x"]}`, `{"cmd":["mysql","--password=[redacted]"]}`},
		{`{"u":"https:\/\/a:b@c\/d"}`, `{"u":"https://[redacted]@c/d"}`},
		{`{"u":"?a=1\u0026token=abc"}`, `{"u":"?a=1\u0026token=[redacted]"}`},
		{`{"body":"{\"password\":\"x\"}"}`, `{"body":"{\"password\":\"[redacted]\"}"}`},
		{`{"password":{}}`, `{"password":{}}`},
		{`[{"name":"DB_PASSWORD","value":"x"},{"name":"HOME","value":"/"}]`, `[{"name":"DB_PASSWORD","value":"[redacted]"},{"name":"HOME","value":"/"}]`},
		{`{"ghp_` + key(36) + `":1}`, `{"[redacted]":1}`},
		{`{"password":"x"`, `{"password":"[redacted]"`},
	} {
		if got, _ := r.JSON(redact.Search, "", c.in); got != c.want {
			t.Errorf("%s becomes %s, want %s", c.in, got, c.want)
		}
	}
	if got, isText := r.JSON(redact.Replace, "password", `["a"]`); got != redact.Mark || !isText {
		t.Errorf("got %s, %v", got, isText)
	}
	if got, isText := r.JSON(redact.Replace, "password", `12`); got != "12" || isText {
		t.Errorf("got %s, %v", got, isText)
	}
}

// TestFindsOfTextsThatAreNotValidCountOnce: a text that looks like JSON but is invalid is searched
// twice, as JSON and as plain text. A secret in it counts once nevertheless.
func TestFindsOfTextsThatAreNotValidCountOnce(t *testing.T) {
	for _, in := range []string{`{"u":"Bearer abcdef0123456789"}`, `{"u":"Bearer abcdef0123456789",}`, `{"b":"{\"u\":\"Bearer abcdef0123456789\"}"}`} {
		r := redact.New(nil, nil)
		expect.Has(t, r.Text(in), redact.Mark, "%s becomes", in)
		r.Each(func(rule string, n uint64) {
			if rule != "bearer" || n != 1 {
				t.Errorf("%s: %s has replaced %d", in, rule, n)
			}
		})
	}
}

func TestAnyValue(t *testing.T) {
	r := redact.New(nil, nil)
	secret := base64.StdEncoding.EncodeToString([]byte("password=x1234"))
	for _, c := range []struct{ in, want string }{
		{
			`{"kvlistValue":{"values":[{"key":"password","value":{"stringValue":"x"}},{"key":"n","value":{"intValue":"7"}}]}}`,
			`{"kvlistValue":{"values":[{"key":"password","value":{"stringValue":"[redacted]"}},{"key":"n","value":{"intValue":"7"}}]}}`,
		},
		{`{"kvlistValue":{"values":[{"key":"secret","value":{"intValue":"7"}}]}}`, `{"kvlistValue":{"values":[{"key":"secret","value":{"intValue":"7"}}]}}`},
		{
			`{"kvlistValue":{"values":[{"key":"jwt","value":{"arrayValue":{"values":[{"stringValue":"x"}]}}}]}}`,
			`{"kvlistValue":{"values":[{"key":"jwt","value":{"stringValue":"[redacted]"}}]}}`,
		},
		{`{"bytesValue":"` + secret + `"}`, `{"bytesValue":"` + base64.StdEncoding.EncodeToString([]byte("password=[redacted]")) + `"}`},
		{`{"stringValue":"password=x"}`, `{"stringValue":"password=[redacted]"}`},
	} {
		if got, _ := r.JSON(redact.Search, "a", c.in); got != c.want {
			t.Errorf("%s becomes\n%s, want\n%s", c.in, got, c.want)
		}
	}
}

func TestOwnPolicy(t *testing.T) {
	card := redact.Rule{Name: "card", Pattern: regexp.MustCompile(`\b\d{13,16}\b`), Check: redact.Luhn}
	p := redact.Default().Keys("user.email").Allow("http.request.header.*").Values(card,
		redact.Rule{Name: "classified", Pattern: regexp.MustCompile("TOP SECRET"), Whole: true})
	r := redact.New(p, nil)
	for _, c := range []struct{ in, want string }{
		{"card 4111111111111111 ok", "card [redacted] ok"},
		{"order 4111111111111112 ok", "order 4111111111111112 ok"},
		{"this is TOP SECRET: x", "[redacted]"},
		{"token=abcd", "token=[redacted]"},
	} {
		expect.Equal(t, r.Text(c.in), c.want, "%q becomes", c.in)
	}
	for name, want := range map[string]redact.Verdict{
		"user.email": redact.Replace, "USER.EMAIL": redact.Replace, "user.name": redact.Search, "http.request.header.cookie": redact.Keep, "cookie": redact.Replace,
	} {
		expect.Equal(t, r.Key(name), want, "%s", name)
	}
	if got, want := counts(r), map[string]uint64{"card": 1, "classified": 1, "parameter": 1}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if redact.New(redact.Off, nil) != nil {
		t.Error("Off replaces something")
	}
	only := redact.New(redact.Off.Keys("a"), nil)
	if only.Key("a") != redact.Replace || only.Key("password") != redact.Search || only.Text("password=x") != "password=x" {
		t.Error("a policy from Off has rules of Default")
	}
}

func TestHash(t *testing.T) {
	r := redact.New(redact.Default().Hash([]byte("0123456789abcdef0123456789abcdef")), nil)
	a, b, c := r.Value(redact.Replace, "password", "x"), r.Text("password=x"), r.Value(redact.Replace, "token", "y")
	if !regexp.MustCompile(`^\[redacted [0-9a-f]{16}\]$`).MatchString(a) || b != "password="+a || c == a {
		t.Errorf("got %q, %q, %q", a, b, c)
	}
	if again := r.Text(b); again != b {
		t.Errorf("%q becomes %q", b, again)
	}
}

func TestRuleThatPanics(t *testing.T) {
	r := redact.New(redact.Off.Values(redact.Rule{Pattern: regexp.MustCompile("x+"), Check: func(string) bool { panic("no") }}), nil)
	expect.Equal(t, r.Text("a xx b"), redact.MarkPanic, "r.Text")
	expect.Equal(t, r.Text("a b c d"), "a b c d", "r.Text")
}

func TestTellIsCalledOnce(t *testing.T) {
	var told []string
	r := redact.New(nil, func(rule, key string) { told = append(told, rule+" "+key) })
	r.Value(redact.Search, "note", "nothing")
	r.Value(redact.Replace, "db.password", "x")
	r.Value(redact.Replace, "token", "x")
	expect.Slice(t, told, []string{"key db.password"}, "told")
}

func FuzzText(f *testing.F) {
	for _, name := range []string{"forms.txt", "ordinary.txt"} {
		b, err := os.ReadFile("testdata/" + name)
		expect.Must(f, err)
		for line := range strings.Lines(string(b)) {
			f.Add(filled(line))
		}
	}
	for _, s := range []string{"a=b", "password=x", aJWT(), aPEM(""), `{"password":"x","a":[1,"--token","x"]}`, "https://a:b@c", `{"a":"{\"token\":\"x\"}"}`, "x: y", `\"token\":\"`} {
		f.Add(s)
	}
	r := redact.New(redact.Default().Keys("a.*").Values(redact.Rule{Pattern: regexp.MustCompile("[0-9]{16}")}), nil)
	f.Fuzz(func(t *testing.T, s string) {
		once := r.Text(s)
		if json.Valid([]byte(s)) && strings.ContainsAny(s, "{[") && !json.Valid([]byte(once)) {
			t.Errorf("%q is not JSON any more: %q", s, once)
		}
		if len(s) > 0 && strings.ToValidUTF8(s, "") == s && strings.ToValidUTF8(once, "") != once {
			t.Errorf("%q is not UTF-8 any more: %q", s, once)
		}
		for _, v := range []redact.Verdict{redact.Search, redact.Replace, redact.Keep} {
			out, isText := r.JSON(v, "k", s)
			if !isText && json.Valid([]byte(s)) && !json.Valid([]byte(out)) {
				t.Errorf("%q is not JSON any more: %q", s, out)
			}
		}
	})
}

func TestCleanTextsAllocateNothing(t *testing.T) {
	r := redact.New(nil, nil)
	for _, s := range []string{"GET", "/api/users/42", "0190d6f0-8f6e-7c4d-9a3b-5e2f1c0d9b8a", "localhost:8080", "a=b c=d", "request done in 5 ms by alice"} {
		if n := testing.AllocsPerRun(100, func() { r.Value(redact.Search, "k", s) }); n > 0 {
			t.Errorf("%q allocates %v times", s, n)
		}
	}
}

func BenchmarkText(b *testing.B) {
	r := redact.New(nil, nil)
	for name, s := range map[string]string{
		"word": "GET", "path": "/api/users/42", "uuid": "0190d6f0-8f6e-7c4d-9a3b-5e2f1c0d9b8a", "address": "localhost:8080",
		"sentence": "request done in 5 ms by alice", "query": "GET /api/users?page=2&sort=name",
		"json": `{"user":"bob","items":[1,2,3],"total":12.5}`, "kilobyte": strings.Repeat("many words of a long message ", 35),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.Value(redact.Search, "k", s)
			}
		})
	}
	b.Run("key", func(b *testing.B) {
		for b.Loop() {
			r.Key("http.request.header.content-type")
		}
	})
}
