package remote

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// tokenWord is the beginning of the line with the token. Part of the protocol.
const tokenWord = "ENTRACE-TOKEN " //nolint:gosec // it is a word, not a token

// The bounds of a token in bytes.
const (
	minToken = 16
	maxToken = 256
)

// appendPreface appends the line with the token. If token is "" it appends nothing.
func appendPreface(b []byte, token string) []byte {
	if token == "" {
		return b
	}
	b = append(b, tokenWord...)
	b = hex.AppendEncode(b, []byte(token))
	return append(b, '\n')
}

func checkToken(token string) error {
	if n := len(token); n > 0 && n < minToken || n > maxToken {
		return fmt.Errorf("the token has %d bytes, expected %d to %d", n, minToken, maxToken)
	}
	return nil
}

// ErrToken is the error of a connection that did not show the right token.
var ErrToken = errors.New("remote: the token is missing or wrong")
