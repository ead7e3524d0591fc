package remote

import "testing"

// TestEndpointWithoutScheme checks that host:port without a scheme means tcp.
func TestEndpointWithoutScheme(t *testing.T) {
	for _, x := range []struct{ text, address string }{
		{"localhost:7000", "localhost:7000"},
		{"127.0.0.1:7000", "127.0.0.1:7000"},
		{"[::1]:7000", "[::1]:7000"},
		{"tcp://shop", "shop:6142"},
	} {
		if e, err := parseEndpoint(x.text); err != nil || e.network != "tcp" || e.address != x.address || e.secure {
			t.Errorf("%s is %+v, %v", x.text, e, err)
		}
	}
	for _, text := range []string{"shop", "http://shop:80", "http:80/x", "unix:x"} {
		if e, err := parseEndpoint(text); err == nil {
			t.Errorf("%s is %+v", text, e)
		}
	}
}
