package viewer

// Rest gives back what queries made, as the handler does when no request has come for a while.
func (h *Handler) Rest() { h.rest() }
