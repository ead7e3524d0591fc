package replay

import "net/http"

// SetTransport sets the transport of all requests to t.
func (t *Target) SetTransport(rt http.RoundTripper) {
	for s := range t.signals {
		t.signals[s].client.Transport = rt
	}
}
