package viewer

// Rest drops the results of requests, as the handler does when no request has come for a while.
func (h *Handler) Rest() { h.rest() }

// Longest exports longest.
var Longest = longest
