package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// admit returns why a request is refused.
func (h *handler) admit(w http.ResponseWriter, r *http.Request) error {
	if h.o.Token != "" && len(h.o.Token) < minToken {
		return &statusError{
			http.StatusInternalServerError,
			fmt.Sprintf("the handler is not set up: Options.Token has %d bytes and needs at least %d", len(h.o.Token), minToken),
		}
	}
	if !ownSite(r) {
		return &statusError{http.StatusForbidden, "requests from other sites are refused"}
	}
	if h.o.Token == "" {
		if why := notLocal(r); why != "" {
			return &statusError{
				http.StatusForbidden,
				why + ": without Options.Token only direct requests from this machine to localhost, 127.0.0.1 or [::1] are served; set a Token and send it as Authorization: Bearer",
			}
		}
		return nil
	}
	if given := r.Header.Values("Authorization"); len(given) == 1 {
		scheme, token, _ := strings.Cut(given[0], " ")
		sum := sha256.Sum256([]byte(strings.TrimLeft(token, " "))) // of one length, which the comparison would tell
		if subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
			return nil
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	return &statusError{http.StatusUnauthorized, "the request needs the header Authorization: Bearer TOKEN with the token of the handler"}
}

// ownSite reports whether no page of another site has made the request. Pages of
// the same machine at another port are another site.
func ownSite(r *http.Request) bool {
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		scheme, host, _ := strings.Cut(origin, "://")
		// Without TLS here there may still be some in front.
		if scheme != "https" && (scheme != "http" || r.TLS != nil) || host == "" || !strings.EqualFold(host, r.Host) {
			return false
		}
	}
	return true
}

// proxyHeaders are those with which proxies say that they pass a request on,
// besides all that begin with X-Forwarded-.
var proxyHeaders = []string{"Forwarded", "Via", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "X-Cluster-Client-Ip"}

// notLocal returns why a request is not one from this machine to itself, "" if it
// is. A page whose name leads here by its own name server is told by the Host.
func notLocal(r *http.Request) string {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains(proxyHeaders, name) {
			return "the request came through a proxy (" + name + ")"
		}
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil || local.Network() != "unix" {
		addr, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !addr.Addr().Unmap().IsLoopback() {
			return "the request is not from this machine"
		}
	}
	if r.URL.Scheme != "" || r.URL.Host != "" {
		return "the request is one for a proxy"
	}
	if !loopbackHost(r.Host) {
		return "the request is for another host"
	}
	return ""
}

// loopbackHost reports whether the host of a request is localhost, of 127.0.0.0/8
// or [::1], with any port.
func loopbackHost(s string) bool {
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		if _, err := strconv.ParseUint(s[i+1:], 10, 16); err != nil {
			return false
		}
		host = s[:i]
	}
	if strings.EqualFold(host, "localhost") || host == "[::1]" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Is4() && addr.IsLoopback()
}
