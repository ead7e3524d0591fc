package filesource

import (
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/entrace-go/entrace/control"
)

func (r *reader) config(c *control.Config) read {
	return r.mapping(
		field{"id", text(r, &c.ID)},
		field{"dir", text(r, &c.Dir)},
		field{"keep", r.mapping(
			field{"files", r.number(&c.Keep.Files)},
			field{"bytes", r.size(&c.Keep.Bytes)},
			field{"age", r.duration(&c.Keep.Age)},
		)},
		field{"ring", r.ring(&c.Ring)},
		field{"traces", list(r, &c.Traces, r.trace)},
	)
}

func (r *reader) ring(c *control.RingConfig) read {
	fields := r.mapping(
		field{"bytes", r.size(&c.Bytes)},
		field{"persist", scalar(r, &c.Persist, "true or false", parseBool)},
		field{"always", r.providers(&c.Always)},
		field{"params", r.params(&c.Params)},
	)
	return func(n *yaml.Node, path string) {
		before := len(r.failed)
		fields(n, path)
		failed := r.failed[before:]
		if c.Bytes == 0 && (slices.Contains(failed, path) || slices.Contains(failed, path+".bytes")) {
			// The ring may be there once the file is right: snapshots are not to
			// be blamed for missing it.
			c.Bytes = control.MinRingBytes
		}
	}
}

func (r *reader) trace(t *control.TraceConfig) read {
	return r.mapping(
		field{"name", text(r, &t.Name)},
		field{"on", list(r, &t.On, r.on)},
		field{"mode", text(r, &t.Mode)},
		field{"window", r.duration(&t.Window)},
		field{"scope", text(r, &t.Scope)},
		field{"providers", r.providers(&t.Providers)},
		field{"every", r.duration(&t.Every)},
		field{"per_hour", r.number(&t.PerHour)},
		field{"one_in", r.number(&t.OneIn)},
		field{"timeout", r.duration(&t.Timeout)},
		field{"max_bytes", r.size(&t.MaxBytes)},
		field{"keep_if", func(n *yaml.Node, path string) {
			t.KeepIf = new(control.KeepIf)
			r.keepIf(t.KeepIf)(n, path)
		}},
		field{"params", r.params(&t.Params)},
	)
}

func (r *reader) on(o *control.On) read {
	return r.mapping(
		field{"trigger", text(r, &o.Trigger)},
		field{"key", text(r, &o.Key)},
		field{"level", scalar(r, &o.Level, "a level", parseLevel)},
		field{"longer_than", r.duration(&o.LongerThan)},
		field{"count", r.number(&o.Count)},
		field{"within", r.duration(&o.Within)},
	)
}

func (r *reader) keepIf(k *control.KeepIf) read {
	return r.mapping(
		field{"longest", list(r, &k.Longest, func(l *control.KeepLongest) read {
			return r.mapping(
				field{"longer_than", r.duration(&l.LongerThan)},
				field{"one_in", r.number(&l.OneIn)},
			)
		})},
		field{"any", list(r, &k.Any, func(s *string) read { return text(r, s) })},
		field{"all", list(r, &k.All, func(s *string) read { return text(r, s) })},
		field{"else", r.number(&k.Else)},
	)
}
