package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/entrace-go/entrace/view"
)

// Ask answers a question of the program itself, in the same way as an HTTP request for api/NAME with these parameters.
// It decodes the JSON of the answer into the value to which answer points, as [json.Unmarshal] does. It returns the
// view to which row numbers in the answer belong. A wrong query is a *query.Error. The handler must have a view.
func (h *Handler) Ask(ctx context.Context, name string, parameters url.Values, answer any) (*view.View, error) {
	to := handlers["api/"+name]
	if to == nil {
		return nil, errors.New("there is no question " + name)
	}
	x, s, err := h.answer(ctx, h.view(), to, parameters)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	return s.v, json.Unmarshal(b, answer)
}

// Renew adds the entries that were written to the files since the last call, and reports whether there are
// any. With [Options].Follow, an open page does this four times a second.
func (h *Handler) Renew(ctx context.Context) (bool, error) {
	was := h.view()
	h.reopen(ctx)
	now, err := h.grow(ctx)
	return now != was, err
}
