// Package remote sends the entries of a recorder over the network, and receives entries from other senders. It
// uses TCP, TLS and unix sockets, and the protocol of ENTRACE's own clients.
//
// A [Sender] is a [recorder.Tee]. A recorder uses it in addition to its file, or, with [recorder.Stream], instead
// of a file. A [Receiver] accepts any number of senders of this package or of ENTRACE. It writes a file for each
// connection.
//
// # Protocol
//
// A connection is an IETPrefix stream as described in package format: the magic, and then each entry after its
// length in eight bytes. The receiver sends nothing. If the receiver requires a token, the connection begins with
// the line
//
//	ENTRACE-TOKEN 736563726574…\n
//
// which has the bytes of the token in lower-case hex. ENTRACE's own programs do not support this line. The version
// of TLS is 1.3 or later.
//
// The protocol has no acknowledgements. If a connection breaks, the sender does not know whether the last entries
// have arrived. They count as sent and are not sent again. A receiver with a token or TLS may refuse a sender. So
// that a refusal loses no entries, a sender with a token or TLS sends the root and waits for a fifth of a second
// before it sends more.
//
// # What a connection holds
//
// Each connection is a separate trace with its own ids: the root, the latest resource, and then the recorded
// entries. When the recorder begins another file, the sender makes another connection. If the parent of an entry
// was dropped, or was sent on an earlier connection, the entry is sent below its nearest ancestor on this
// connection, or below the resource if there is no such ancestor. The entry then also has the attributes
//
//	trace_id        the trace id of the span, or of the span to which the entry belongs
//	parent_span_id  the id of the parent span; a log record has it as span_id
//
// if it does not have them already. Readers can join traces by these attributes. To find ancestors, a sender
// remembers up to 64 Ki spans, the spans that most recently had children, and the last 16 Ki other entries. If it
// does not remember the parent of an entry, it sends the entry below the resource; a span then has its own trace_id.
// A sender also keeps the latest sixteen resources, and sends a resource again when an entry refers to it.
//
// # What is lost
//
// Entries that are recorded while the buffer is full are dropped and counted, see [SenderStats]. The entry
// entrace.end, which the recorder writes when it is closed, has the counts of the recorder's file, not of the
// connection.
//
// # Trust
//
// A receiver does not trust senders. It decodes every entry before it writes the entry. The first invalid entry
// ends the connection, and the entries before it remain in the file. Memory for an entry is allocated when its
// bytes arrive, not when its length arrives. The name of a file consists of the service's name, the time and a
// counter; in the service's name, a byte that is not a letter, a digit or one of ._- becomes %XX. An address that
// other machines can reach needs a token, or TLS with client certificates, because TLS alone does not authenticate
// the sender. Loopback addresses and private unix sockets need neither.
//
// A receiver limits connections, memory and the received traces in its folder, see [Receiver]. It ends connections
// that are idle for ten minutes; a Sender then connects again when it has entries to send. If the folder reaches its
// limit or the disk is full, a received trace ends with its last whole entry, and [Received].Err has the reason. If
// the ET does not fit on the disk, the IET remains.
package remote
