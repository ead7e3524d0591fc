package query_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/query"
)

// TestParse compares queries with their syntax trees. The queries of Tempo's table were also parsed
// by Tempo's own parser. The differences are described in docs/query.md.
func TestParse(t *testing.T) {
	for _, c := range [][2]string{
		// Parsed as in Tempo.
		{`{ .a || .b && .c }`, `{((.a || .b) && .c)}`},
		{`{.a=1} && {.b=1} >> {.c=1}`, `({(.a = 1)} && ({(.b = 1)} >> {(.c = 1)}))`},
		{`{.a=1} >> {.b=1} && {.c=1}`, `(({(.a = 1)} >> {(.b = 1)}) && {(.c = 1)})`},
		{`{ !.a = .b }`, `{((!.a) = .b)}`},
		{`{.a=1} | count() = 0`, `{(.a = 1)} | count() = 0`},
		{`{ duration > 100 }`, `{(duration > 100)}`},
		{`{ span:duration > 1d }`, `{(span:duration > 24h0m0s)}`},
		{`{ duration > 1h30m }`, `{(duration > 1h30m0s)}`},
		{"{ .a = `x` } // end", `{(.a = "x")}`},
		{`{ .a-1 = 2 }`, `{(.a-1 = 2)}`},
		{`{ .a - 1 = 2 }`, `{((.a - 1) = 2)}`},
		{`{ -2 ^ 2 = -4 }`, `{(-4 = -4)}`},
		{`{ .a + 2 * 3 > 1 }`, `{((.a + 6) > 1)}`},
		{`{ span."odd name".y = 1 }`, `{(span."odd name".y = 1)}`},
		{`{ parent.url.path = "/" }`, `{(parent.url.path = "/")}`},
		{`{} | select(.a, .b)`, `{} | select(.a, .b)`},
		{`{ status = error } | avg(duration) > 5`, `{(status = error)} | avg(duration) > 5`},
		{`{.a=1} &>> {.b=1} !~ {.c=1}`, `(({(.a = 1)} &>> {(.b = 1)}) !~ {(.c = 1)})`},

		// Only valid here, and not in Tempo.
		{`{} | by(name, kind)`, `{} | by(name, kind)`},
		{`!{.a=1}`, `!{(.a = 1)}`},
		{`({.a=1} | count() = 0) && {.b=1}`, `(({(.a = 1)} | count() = 0) && {(.b = 1)})`},
		{`{ .a in (1, 2) }`, `{(.a in (1, 2))}`},
		{`{ .a not in ("x") }`, `{(.a not in ("x"))}`},
		{`{ not .a = 1 }`, `{(!(.a = 1))}`},
		{`{ .a = 1 and .b = 2 }`, `{((.a = 1) && (.b = 2))}`},
		{`level >= warn user`, `{((level >= WARN) && user)}`},
		{`payment failed`, `{(payment && failed)}`},
		{`GET /cart`, `{(GET && /cart)}`},
		{`/cart status = error`, `{(/cart && (status = error))}`},
		{`duration / 2 > 1ms`, `{((duration / 2) > 1ms)}`},
		{`GET /cart/x name = "GET /cart"`, `{((GET && /cart/x) && (name = "GET /cart"))}`},
		{`(GET /cart) && .http.route = "/cart"`, `{((GET && /cart) && (.http.route = "/cart"))}`},
		{`GET /cart // x`, `{(GET && /cart)}`},
		{`GET /cart depth / 2 > 0`, `{((GET && /cart) && ((depth / 2) > 0))}`},
		{`/a.b/ /c d/`, `{(/a.b/ && /c d/)}`},
		{`.n / depth > 0`, `{((.n / depth) > 0)}`},
		{`.n/depth > 0`, `{((.n / depth) > 0)}`},
		{`.n = 200 /cart`, `{((.n = 200) && /cart)}`},
		{`.n = 200 /status`, `{((.n = 200) && /status)}`},
		{`duration > 1ms /cart/pay`, `{((duration > 1ms) && /cart/pay)}`},
		{`.x in (200) /cart`, `{((.x in (200)) && /cart)}`},
		{`(kind = server) /cart`, `{((kind = server) && /cart)}`},
		{`/(cart|pay)/ /cart`, `{(/(cart|pay)/ && /cart)}`},
		{`.x = nil /service | count() > 2`, `{((.x = nil) && /service)} | count() > 2`},
		{`({} | count() > 1) && (a /name)`, `(({} | count() > 1) && ({(a && /name)}))`},
		{`{} | avg(.n /depth) > 1`, `{} | avg((.n / depth)) > 1`},
		{`duration - self > 1ms`, `{((duration - self) > 1ms)}`},
		{`kind not in (server, client)`, `{(kind not in (server, client))}`},
		{`(level) = error`, `{(level = ERROR)}`},
		{`{ .a /.b > 1 }`, `{((.a / .b) > 1)}`},
		{`"error"`, `{"error"}`},
		{`/time ?out/ .user = "ada"`, `{(/time ?out/ && (.user = "ada"))}`},
		{`name = "GET /cart" | count() by(name)`, `{(name = "GET /cart")} | count() by(name)`},
		{`| p95(duration) by(name) | topk(3, p95(duration))`, `{} | p95(duration) by(name) | topk(3, p95(duration))`},
		{`(payment || order) -5 < .n`, `{((payment || order) && (-5 < .n))}`},
		{`message contains "Fail"`, `{(message contains "Fail")}`},
		{`{} | quantile(duration, 0.5, .99)`, `{} | quantile(duration, 0.5, 0.99)`},
		{``, `{}`},
	} {
		text, want := c[0], c[1]
		q, err := query.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := query.Tree(q); got != want {
			t.Errorf("%s is read as\n%s, want\n%s", text, got, want)
		}
	}
}

// TestParseErrors checks the position and the hint of errors.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{ 'a' = .b }`:                          `at 3|double quotes`,
		`{ .A = 1 AND .b = 2 }`:                 `at 10|`,
		`{.a=1} && {.b=1} || {.c=1}`:            `at 18|parentheses`,
		`{ levl = "error" }`:                    `at 3|level`,
		`{ span:lock > 1ms }`:                   `at 3|known are span:blocked, span:chan`,
		`parent = nil`:                          `at 1|write { parent = nil }`,
		`{ nestedSetLeft = 1 }`:                 `at 3|parent = nil`,
		`levl = error`:                          `at 1|level`,
		`Name = eve`:                            `at 1|name`,
		`statsu = ok`:                           `at 1|status`,
		`spna.user = eve`:                       `at 1|scopes`,
		`childCount > 2`:                        `at 1|span:childCount`,
		`{ .user = ada lin }`:                   `at 11|a text needs quotes: "ada lin"`,
		`duraton > 5ms`:                         `at 1|duration`,
		`in`:                                    `at 1|"in"`,
		`status = 403`:                          `at 10|.http.response.status_code`,
		`duration > 1 ms`:                       `at 14|write 1ms`,
		`level = eror`:                          `at 9|known values are trace, debug`,
		`5 = foo`:                               `at 5|`,
		`(level) = foo`:                         `at 11|`,
		`/cart = foo`:                           `at 1|to divide`,
		`.n /depth > 0`:                         `at 4|/ depth`,
		`{ .a = error }`:                        `at 8|"error"`,
		`{} | rate()`:                           `at 6|count() by`,
		`{} | quantile_over_time(duration, .9)`: `at 6|quantile`,
		`{} | with(most_recent=true)`:           `at 6|`,
		`{} | cuont()`:                          `at 6|count`,
		`{ .a =~ "(" }`:                         `at 9|RE2`,
		`{ .a = `:                               `at 8|`,
		`{ .a = "x }`:                           `at 8|`,
		`level >= loud`:                         `at |`,
		`{ foo.bar && .b }`:                     `at 3|scopes`,
		`{} | count() | {.a=1}`:                 `at 6|compare it`,
		`(name = "x" | count()) && {}`:          `|`,
		`{ .a / 0 = 1 / 0 }`:                    `at |`,
		strings.Repeat("(", 10_000):             `|nested`,
		"{" + strings.Repeat("!", 100_000):      `|longer`,
	} {
		place, hint, _ := strings.Cut(want, "|")
		_, err := query.Parse(text)
		var e *query.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%.60s: %v, want an error with %q and %q", text, err, place, hint)
		}
	}
}

// TestTextWithoutQuotes checks that texts that people paste are free text in filters without
// braces.
func TestTextWithoutQuotes(t *testing.T) {
	for text, want := range map[string]string{
		`request 12`:                    `{(request && 12)}`,
		`404`:                           `{404}`,
		`took 2ms`:                      `{(took && 2ms)}`,
		`took 2 ms`:                     `{((took && 2) && ms)}`,
		`127.0.0.1`:                     `{127.0.0.1}`,
		`at 10:32:05.123`:               `{(at && 10:32:05.123)}`,
		`2026-11-22`:                    `{2026-11-22}`,
		`127.0.0.1:8080 status = error`: `{(127.0.0.1:8080 && (status = error))}`,
		`main.go`:                       `{main.go}`,
		`main.go:42`:                    `{main.go:42}`,
		`price:`:                        `{price:}`,
		`it's`:                          `{it's}`,
		`http://127.0.0.1`:              `{http://127.0.0.1}`,
		`GET http://a.b/c?d=1&e`:        `{(GET && http://a.b/c?d=1&e)}`,
		`GET /cart?id=7`:                `{(GET && /cart?id=7)}`,
		`transfer a->b`:                 `{(transfer && a->b)}`,
		`github.com/entrace-go/entrace`: `{github.com/entrace-go/entrace}`,
		`(main.go || 404) warn?`:        `{((main.go || 404) && warn?)}`,
		`user:eve`:                      `{user:eve}`,
		`[db] done, 50%`:                `{(([db] && done,) && 50%)}`,
		`done. bye!`:                    `{(done. && bye!)}`,
		`a@b.com`:                       `{a@b.com}`,
		`--flag ./x`:                    `{(--flag && ./x)}`,
		`-5`:                            `{-5}`,
		`error`:                         `{((level = ERROR) || ((status = error) || error))}`,
		`warn`:                          `{((level = WARN) || warn)}`,
		`server .n > 1`:                 `{(((kind = server) || server) && (.n > 1))}`,
		`log`:                           `{log}`,
		`.user = eve`:                   `{(.user = "eve")}`,
		`.user = error`:                 `{(.user = "error")}`,
		`name = GET`:                    `{(name = "GET")}`,
		`name != error`:                 `{(name != "error")}`,
		`.host = 127.0.0.1`:             `{(.host = "127.0.0.1")}`,
		`.file = main.go .n = 1`:        `{((.file = "main.go") && (.n = 1))}`,
		`.url.path = /cart`:             `{(.url.path = "/cart")}`,
		`.user in (eve, bob)`:           `{(.user in ("eve", "bob"))}`,
		`.user = name`:                  `{(.user = name)}`,
		`user = eve`:                    `{(.user = "eve")}`,
		`user=eve`:                      `{(.user = "eve")}`,
		`user!="ada" n<=5`:              `{((.user != "ada") && (.n <= 5))}`,
		`user =~ "e.*" retries > 2`:     `{((.user =~ "e.*") && (.retries > 2))}`,
		`user in (eve, bob)`:            `{(.user in ("eve", "bob"))}`,
		`user not in (eve)`:             `{(.user not in ("eve"))}`,
		`user contains ev`:              `{(.user contains "ev")}`,
		`not user = eve`:                `{(!(.user = "eve"))}`,
		`{ user = eve }`:                `{(.user = "eve")}`,
		`{ user in (eve, bob) }`:        `{(.user in ("eve", "bob"))}`,
		`{ http.route = x && n > 2 }`:   `{((.http.route = "x") && (.n > 2))}`,
		`(user = eve) || error`:         `{((.user = "eve") || ((level = ERROR) || ((status = error) || error)))}`,
		`http.route=/cart/pay`:          `{(.http.route = "/cart/pay")}`,
		`host=127.0.0.1:80 a->b`:        `{((.host = "127.0.0.1:80") && a->b)}`,
		`state = open | count() > 1`:    `{(.state = "open")} | count() > 1`,
		`trace:id = 00ab`:               `{(trace:id = "00ab")}`,
		`status = error error`:          `{((status = error) && ((level = ERROR) || ((status = error) || error)))}`,
		// These are not free text.
		`(200 + 5) > .x`:                       `{(205 > .x)}`,
		`duration/2 > 1ms`:                     `{((duration / 2) > 1ms)}`,
		`.n/2 = 1`:                             `{((.n / 2) = 1)}`,
		`.n in (1,2)`:                          `{(.n in (1, 2))}`,
		`duration > 0`:                         `{(duration > 0)}`,
		`true`:                                 `{true}`,
		`.a.b`:                                 `{.a.b}`,
		`start + 1s > "1970-01-01T00:00:00Z"`:  `{((start + 1s) > 1970-01-01T00:00:00Z)}`,
		`"2026-11-22T15:04:05Z" < start`:       `{(2026-11-22T15:04:05Z < start)}`,
		`{ duration > 100 }`:                   `{(duration > 100)}`,
		`{ status = error } >> { .a = "b" }`:   `({(status = error)} >> {(.a = "b")})`,
		`not served`:                           `{(!served)}`,
		`{} | select(start, name, .a)`:         `{} | select(start, name, .a)`,
		`{ .a } && { !.b }`:                    `({.a} && {(!.b)})`,
		`level = error | count() by(.a, name)`: `{(level = ERROR)} | count() by(.a, name)`,
	} {
		q, err := query.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := query.Tree(q); got != want {
			t.Errorf("%s is read as\n%s, want\n%s", text, got, want)
		}
	}
}

// TestErrorsOfferAQuery checks that an error offers a complete, valid query, if the user may have
// meant one.
func TestErrorsOfferAQuery(t *testing.T) {
	for text, want := range map[string]string{
		`{ name = GET /orders }`:         `{ name = "GET /orders" }`,
		`{ name = GET /cart && .n=1 }`:   `{ name = "GET /cart" && .n=1 }`,
		`{ user = eve lin }`:             `{ user = "eve lin" }`,
		`{ span:mutx > 1ms }`:            `{ span:mutex > 1ms }`,
		`.db.query.text =`:               `.db.query.text != nil`,
		`{ .a = `:                        `{ .a != nil }`,
		`{ duration > }`:                 `{ duration > 100ms }`,
		`.n > 1 level >=`:                `.n > 1 level >= error`,
		`(user = ) && b`:                 `(.user != nil ) && b`,
		`.user in`:                       `.user != nil`,
		`.user like eve`:                 `.user contains "eve"`,
		`{ .user like "%ev%" }`:          `{ .user contains "ev" }`,
		`.http.route is GET /cart error`: `.http.route = "GET /cart error"`,
		`{ name matches "a.*" }`:         `{ name =~ "a.*" }`,
		`{ .a = "x" | y`:                 ``,
		`usr = eve staus = eror`:         `usr = eve status = error`,
		`spna.user = eve`:                `span.user = eve`,
		`duration > 100`:                 `duration > 100ms`,
		`duration in (5, 6ms)`:           `duration in (5ms, 6ms)`,
		`duration > 1 ms`:                `duration > 1ms`,
		`self > "5ms"`:                   `self > 5ms`,
		`{} | p96(duration)`:             `{} | quantile(duration, 0.96)`,
		`{} | count() by name`:           `{} | count() by(name)`,
		`{} | cuont()`:                   `{} | count()`,
		`{} | avg()`:                     `{} | avg(duration)`,
		`status = 403`:                   `.http.response.status_code = 403`,
		`level == error`:                 `level = error`,
		`kind = sever`:                   `kind = server`,
		`{ name = 5 }`:                   `{ name = "5" }`,
		`name = 404`:                     `name = "404"`,
		`{ rootServiceName = 1 }`:        `{ rootServiceName = "1" }`,
		`{ duration }`:                   `{ duration != nil }`,
		`{ status }`:                     `{ status != nil }`,
		`{ ok }`:                         `{ status = ok }`,
		`{ "foo" }`:                      `"foo"`,
		`{ .a = error }`:                 `{ .a = "error" }`,
		`{ 'a' = .b }`:                   `{ "a" = .b }`,
		`{ .a = "x`:                      `{ .a = "x" }`,
		`{ .a = "x"`:                     `{ .a = "x" }`,
		`({ .a = 1 }`:                    `({ .a = 1 })`,
		`{ foo.bar }`:                    `{ .foo.bar }`,
		`{} | by("foo") | count()`:       `{} | by(.foo) | count()`,
		`max(duration) > 1s`:             `{} | max(duration) > 1s`,
		`by(.a) | { true }`:              `{} | by(.a) | { true }`,
		`count() > 1 | { .a = true }`:    `{} | count() > 1 | { .a = true }`,
		`in`:                             `"in"`,
		`.n /depth > 0`:                  `.n / depth > 0`,
		`level = "information"`:          ``,
		`{"a": 1}`:                       `"{\"a\": 1}"`,
		`job is in queue`:                `"job is in queue"`,
		`{ 1.1 }`:                        ``,
		`{ .a + 1 }`:                     `{ .a + 1 != nil }`,
		`{ !1 = 1 }`:                     ``,
		`{ 1 && "foo" }`:                 ``,
		`{ "foo" = span:childCount }`:    `{ foo = span:childCount }`,
		`{ name + 1 = 2 }`:               ``,
		`{ duration =~ "1.*" }`:          ``,
		`{ span:open = 1 }`:              ``,
		`{ status = 1 }`:                 `{ .http.response.status_code = 1 }`,
		`{ name < duration }`:            ``,
		`{ -name = "x" }`:                ``,
		`{} | avg(name)`:                 ``,
		`{} | select("x")`:               `{} | select(.x)`,
		`{} | avg(name) > 1`:             ``,
		`{ nestedSetLeft < 3 }`:          ``,
		`100 * ({} | rate())`:            `{} | count() by(bucket(start, 1s))`,
		`-5 + ({} | rate())`:             `{} | count() by(bucket(start, 1s))`,
		`(1 + 2) + ({} | rate())`:        `{} | count() by(bucket(start, 1s))`,
		`{} | rate() by(.a)`:             `{} | count() by(bucket(start, 1s), .a)`,
		`{} | rate() > 5`:                `{} | count() by(bucket(start, 1s))`,
		`({} | rate()) / ({ status = error } | rate())`:                      `{} | count() by(bucket(start, 1s))`,
		`{ kind = server } | count_over_time() by (name) with(sample=0.1)`:   `{ kind = server } | count() by(bucket(start, 1s), name)`,
		`{} | quantile_over_time(duration, 0.5, 0.9) by (span.a) | topk(10)`: `{} | quantile(duration, 0.5, 0.9) by(bucket(start, 1s), span.a) | topk(10)`,
		`{} | avg_over_time(duration)`:                                       `{} | avg(duration) by(bucket(start, 1s))`,
		`{} | rate(`:                                                         `{} | count() by(bucket(start, 1s))`,
		`rate() by(`:                                                         `"rate() by("`,
		`lockA()`:                                                            `"lockA()"`,
	} {
		_, err := query.Parse(text)
		e, ok := errors.AsType[*query.Error](err)
		if !ok {
			t.Errorf("%s: %v, want an error", text, err)
			continue
		}
		if e.Try != want {
			t.Errorf("%s: %v: offers %q, want %q", text, err, e.Try, want)
		}
		if _, err := query.Parse(e.Try); err != nil {
			t.Errorf("%s: offers %s: %v", text, e.Try, err)
		}
		if strings.Contains(text, "rate") && !strings.Contains(err.Error(), "bucket(start, 1s)") {
			t.Errorf("%s: %v, want an error that says what to write", text, err)
		}
	}
}
