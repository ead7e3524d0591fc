package replay

import "net/http"

// SetTransport makes t use another transport.
func (t *Target) SetTransport(rt http.RoundTripper) {
	for s := range t.signals {
		t.signals[s].client.Transport = rt
	}
}
