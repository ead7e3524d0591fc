// Package view is the logical view of one or several trace files: spans, log records and the
// tree that they make, as columns in memory.
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
// In the view it does not matter how a trace was recorded. Each entry is a row, but for those
// that only say how a span ended: these are part of the span's row. Rows are numbered in the
// order of the files, and keep their numbers while a file grows. Row 0 is the root.
//
// A row hangs below another one, its parent: the parent of its entry, unless the entry names
// a span that is elsewhere, as a span does with parent_span_id and a log record with its
// span_id. What is below no resource has that of the row that it hangs below. That span may come later, or be in another file. If several spans have the same
// ids, the first of the same file counts, then the first of the others. Children are in the
// order of time, links first; one without a time stays behind its earlier sibling.
//
// A span failed if its status is error, or if it is unset and the span has an event named
// exception, as the SDK records when a span ends in a panic: [Flags.Failed] is the one place that
// says so. [Flags.Status] stays what was recorded.
//
// A span that was open when its recorder began a new file is in both files: its later half is
// part of the earlier one's row, as an end is, if both files are in the view.
//
// What several files of one process have, as the snapshots of a flight recorder do, is one row: a
// span of the same ids, start and resource, and what says the same at the same place. See
// [View.Copies].
//
// # Memory and time
//
// A view takes about 40 bytes a row and 2 an entry, and the texts that it knows, at most a few
// megabytes: a row whose name or message is not among them is read from the file when it is
// asked for. Building it takes one pass over the files on all cores, less than a tenth of a
// microsecond an entry. The tree takes 12 bytes a row more once it is asked for.
//
// # Growing files
//
// A View never changes. [View.Extend] returns one that has what has been written since, and
// shares nearly all memory with the one before. All methods are safe for concurrent use.
package view
