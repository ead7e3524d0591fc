package remote

import (
	"encoding/hex"
	"errors"
)

// tokenWord begins the line with the token. It is part of the protocol.
const tokenWord = "ENTRACE-TOKEN " //nolint:gosec // it is a word, not a token

// appendPreface appends the line with the token. It appends nothing if token is "".
func appendPreface(b []byte, token string) []byte {
	if token == "" {
		return b
	}
	b = append(b, tokenWord...)
	b = hex.AppendEncode(b, []byte(token))
	return append(b, '\n')
}

// ErrToken is the error of a connection that did not send the right token.
var ErrToken = errors.New("remote: the token is missing or wrong")
