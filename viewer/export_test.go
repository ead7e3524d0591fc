package viewer

// Rest is what the handler does when no request has come for a while.
func (h *Handler) Rest() { h.rest() }
