package query_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/query"
)

// TestParse compares queries with how they are read. Those of Tempo's table were run through its
// own parser; what is read in another way here stands in docs/query.md.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		// As Tempo has it.
		`{ .a || .b && .c }`:                     `{((.a || .b) && .c)}`,
		`{.a=1} && {.b=1} >> {.c=1}`:             `({(.a = 1)} && ({(.b = 1)} >> {(.c = 1)}))`,
		`{.a=1} >> {.b=1} && {.c=1}`:             `(({(.a = 1)} >> {(.b = 1)}) && {(.c = 1)})`,
		`{ !.a = .b }`:                           `{((!.a) = .b)}`,
		`{.a=1} | count() = 0`:                   `{(.a = 1)} | count() = 0`,
		`{ duration > 100 }`:                     `{(duration > 100)}`,
		`{ span:duration > 1d }`:                 `{(span:duration > 24h0m0s)}`,
		`{ duration > 1h30m }`:                   `{(duration > 1h30m0s)}`,
		"{ .a = `x` } // end":                    `{(.a = "x")}`,
		`{ .a-1 = 2 }`:                           `{(.a-1 = 2)}`,
		`{ .a - 1 = 2 }`:                         `{((.a - 1) = 2)}`,
		`{ -2 ^ 2 = -4 }`:                        `{(-4 = -4)}`,
		`{ .a + 2 * 3 > 1 }`:                     `{((.a + 6) > 1)}`,
		`{ span."odd name".y = 1 }`:              `{(span."odd name".y = 1)}`,
		`{ parent.url.path = "/" }`:              `{(parent.url.path = "/")}`,
		`{} | select(.a, .b)`:                    `{} | select(.a, .b)`,
		`{ status = error } | avg(duration) > 5`: `{(status = error)} | avg(duration) > 5`,
		`{.a=1} &>> {.b=1} !~ {.c=1}`:            `(({(.a = 1)} &>> {(.b = 1)}) !~ {(.c = 1)})`,
		// Ours alone.
		`{} | by(name, kind)`:                   `{} | by(name, kind)`,
		`!{.a=1}`:                               `!{(.a = 1)}`,
		`({.a=1} | count() = 0) && {.b=1}`:      `(({(.a = 1)} | count() = 0) && {(.b = 1)})`,
		`{ .a in (1, 2) }`:                      `{(.a in (1, 2))}`,
		`{ .a not in ("x") }`:                   `{(.a not in ("x"))}`,
		`{ not .a = 1 }`:                        `{(!(.a = 1))}`,
		`{ .a = 1 and .b = 2 }`:                 `{((.a = 1) && (.b = 2))}`,
		`level >= warn user`:                    `{((level >= WARN) && user)}`,
		`payment failed`:                        `{(payment && failed)}`,
		`GET /cart`:                             `{(GET && /cart)}`,
		`/cart status = error`:                  `{(/cart && (status = error))}`,
		`duration / 2 > 1ms`:                    `{((duration / 2) > 1ms)}`,
		`GET /cart/x name = "GET /cart"`:        `{((GET && /cart/x) && (name = "GET /cart"))}`,
		`(GET /cart) && .http.route = "/cart"`:  `{((GET && /cart) && (.http.route = "/cart"))}`,
		`GET /cart // x`:                        `{(GET && /cart)}`,
		`GET /cart depth / 2 > 0`:               `{((GET && /cart) && ((depth / 2) > 0))}`,
		`/a.b/ /c d/`:                           `{(/a.b/ && /c d/)}`,
		`.n / depth > 0`:                        `{((.n / depth) > 0)}`,
		`.n/depth > 0`:                          `{((.n / depth) > 0)}`,
		`.n = 200 /cart`:                        `{((.n = 200) && /cart)}`,
		`.n = 200 /status`:                      `{((.n = 200) && /status)}`,
		`duration > 1ms /cart/pay`:              `{((duration > 1ms) && /cart/pay)}`,
		`.x in (200) /cart`:                     `{((.x in (200)) && /cart)}`,
		`(kind = server) /cart`:                 `{((kind = server) && /cart)}`,
		`/(cart|pay)/ /cart`:                    `{(/(cart|pay)/ && /cart)}`,
		`.x = nil /service | count() > 2`:       `{((.x = nil) && /service)} | count() > 2`,
		`({} | count() > 1) && (a /name)`:       `(({} | count() > 1) && ({(a && /name)}))`,
		`{} | avg(.n /depth) > 1`:               `{} | avg((.n / depth)) > 1`,
		`duration - self > 1ms`:                 `{((duration - self) > 1ms)}`,
		`kind not in (server, client)`:          `{(kind not in (server, client))}`,
		`(level) = error`:                       `{(level = ERROR)}`,
		`{ .a /.b > 1 }`:                        `{((.a / .b) > 1)}`,
		`"error"`:                               `{"error"}`,
		`/time ?out/ .user = "ada"`:             `{(/time ?out/ && (.user = "ada"))}`,
		`name = "GET /cart" | count() by(name)`: `{(name = "GET /cart")} | count() by(name)`,
		`| p95(duration) by(name) | topk(3, p95(duration))`: `{} | p95(duration) by(name) | topk(3, p95(duration))`,
		`(payment || order) -5 < .n`:                        `{((payment || order) && (-5 < .n))}`,
		`message contains "Fail"`:                           `{(message contains "Fail")}`,
		`{} | quantile(duration, 0.5, .99)`:                 `{} | quantile(duration, 0.5, 0.99)`,
		``:                                                  `{}`,
	} {
		q, err := query.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := q.Tree(); got != want {
			t.Errorf("%s is read as\n%s, want\n%s", text, got, want)
		}
	}
}

// TestParseErrors: an error says where and what may be meant.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{ 'a' = .b }`:                          `at 3|double quotes`,
		`{ .A = 1 AND .b = 2 }`:                 `at 10|`,
		`{.a=1} && {.b=1} || {.c=1}`:            `at 18|parentheses`,
		`user = "ada"`:                          `at 1|did you mean .user`,
		`.user = ada`:                           `at 9|a text needs quotes: "ada"`,
		`duraton > 5ms`:                         `at 1|duration`,
		`error`:                                 `at 1|level = error`,
		`in`:                                    `at 1|"in"`,
		`status = 403`:                          `at 10|.http.response.status_code`,
		`duration > 1 ms`:                       `at 14|write 1ms`,
		`level = eror`:                          `at 9|known are debug`,
		`5 = foo`:                               `at 5|`,
		`(level) = foo`:                         `at 11|`,
		`{ "x" = foo }`:                         `at 9|`,
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
		`{ foo.bar = 1 }`:                       `at 3|scopes`,
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
