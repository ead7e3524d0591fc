package redact_test

import (
	"fmt"

	"github.com/entrace-go/entrace/redact"
)

func Example() {
	r := redact.New(redact.Default().Keys("iban").Allow("page_token"), nil)
	for _, pair := range [][2]string{{"iban", "DE89 3704"}, {"password", "hunter2"}, {"page_token", "3"}, {"user", "ada"}} {
		fmt.Println(pair[0], r.Value(r.Key(pair[0]), pair[0], pair[1]))
	}
	fmt.Println(r.Text("GET /login?password=hunter2&user=ada"))
	// Output:
	// iban [redacted]
	// password [redacted]
	// page_token 3
	// user ada
	// GET /login?password=[redacted]&user=ada
}
