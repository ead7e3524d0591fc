package record

import "github.com/entrace-go/entrace/internal/core/journal"

// Size returns the size of the record in bytes.
func (b *Builder) Size() int { return len(b.buf) - journal.HeadSize }

// Bad reports whether the record is damaged.
func (c *Cursor) Bad() bool { return c.bad }
