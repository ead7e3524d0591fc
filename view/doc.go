// Package view provides a logical view of one or several trace files: spans, log records and the tree that they form,
// in columns in memory; its API may change until v0.2.
//
//	f, err := format.Open("app.et", nil)
//	…
//	v, err := view.New(ctx, []*format.File{f}, nil)
//	…
//	for r := range v.Rows() {
//		if v.Role(r) == view.RoleSpan && v.Name(r) == "GET /cart" {
//			took, ended := v.Duration(r)
//			…
//		}
//	}
//
// # Rows
//
// The view hides how a trace was recorded. Each entry is a row, except entries that only describe
// the end of a span: these are part of the span's row. Rows are numbered in the order of the files,
// and keep their numbers while a file grows. Row 0 is the root.
//
// Every row except the root has a parent row. By default, this is the row of the entry's parent. If the entry names a
// span as its parent, the parent is the row of that span. A span names its parent with parent_span_id, and a log
// record names its span with its span_id. The named span may come later or be in another file. If several spans have
// these ids, the parent is the first such span in the same file, or else the first such span in another file. With B3
// headers, the client's span and the server's span of a call have the same ids. In this case, the server's span is
// below the client's span. Other spans and log records that name these ids are below the span of their own service. A
// row that is not below a resource belongs to the resource of its parent. Children are sorted by time, with links
// first. A child without a time directly follows the sibling that was recorded before it.
//
// A span failed if its status is error. A span whose status is unset also failed if it has an event named exception,
// which the SDK records when a span ends in a panic, or a log record with the otel.status_code ERROR, such as a line
// of an access log. [Flags.Failed] applies this rule. [Flags.Status] returns the recorded status.
//
// A span that was open when its recorder began a new file is in both files. If both files are in the view, the view
// merges the later half of the span into the row of the earlier half, like an end.
//
// Several files of one process can contain the same records, for example snapshots of a flight recorder. The view
// shows all copies of a record as one row. Spans are copies if they have the same ids, start and resource, and
// a trace id. Other records are copies if they have the same content and the same parent. See [View.Copies].
//
// # Memory and time
//
// A view needs about 40 bytes of memory for each row and 2 bytes for each entry, and at most a few megabytes for
// names and messages. It reads other names and messages from the file when they are needed. Building a view takes one
// pass over the files on all cores, less than a tenth of a microsecond for each entry. The view builds the tree when
// it is first used. The tree needs 12 more bytes for each row.
//
// # Growing files
//
// A View never changes. [View.Extend] returns a new View that includes entries that were written later, and shares
// nearly all memory with the old View. All methods are safe for concurrent use.
package view
