package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/otel/listener"
)

// admit returns an error if the request is refused.
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
		// Compare hashes, so that the time does not reveal the length of the token.
		sum := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
		if subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
			return nil
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	return &statusError{http.StatusUnauthorized, "the token is missing or wrong: send the header Authorization: Bearer TOKEN"}
}

// ownSite returns false if a page of another site has made the request. Another port is another site.
func ownSite(r *http.Request) bool {
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	for _, origin := range r.Header.Values("Origin") {
		scheme, host, _ := strings.Cut(origin, "://")
		// A proxy may terminate TLS, so https is allowed without TLS in this connection.
		if scheme != "https" && (scheme != "http" || r.TLS != nil) || host == "" || !strings.EqualFold(host, r.Host) {
			return false
		}
	}
	return true
}

// proxyHeaders are the headers that proxies add to forwarded requests. Headers with the prefix X-Forwarded-
// count as well.
var proxyHeaders = []string{"Forwarded", "Via", "X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "X-Cluster-Client-Ip"}

// notLocal returns "" if this machine has sent the request to itself, else the reason why the request does
// not count as local.
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
		return "the request names a full URL, as for a proxy"
	}
	if !listener.LocalHost(r.Host) {
		return "the request is for another host"
	}
	return ""
}
