// Package remote sends the entries of a recorder over the network, and receives entries from other senders. It
// uses TCP, TLS and unix sockets, and the protocol of ENTRACE's own clients.
//
// A [Sender] is a [recorder.Tee]. A recorder writes to it in addition to a file, or, with [recorder.Stream],
// instead of a file. A [Receiver] accepts any number of senders of this package or of ENTRACE, and writes a file
// for each connection.
//
// # Protocol
//
// A connection is an IETPrefix stream as described in package format: the magic, and then each entry after its
// length in eight bytes. The receiver sends nothing. If the receiver requires a token, the connection begins with
// the line
//
//	ENTRACE-TOKEN 736563726574…\n
//
// which contains the bytes of the token in lower-case hex. ENTRACE's own programs do not support this line. With
// TLS, the version is 1.3 or later.
//
// The protocol has no acknowledgements. If a connection breaks, the sender does not know whether the last entries
// have arrived. It counts them as sent, and does not send them again. A receiver with a token or TLS may refuse a
// sender. A sender with a token or TLS therefore sends the root, and waits a fifth of a second before it sends
// more, so that a refusal loses no entries.
//
// # What a connection holds
//
// Each connection is a separate trace with its own ids: the root, the latest resource, and then the recorded
// entries. When the recorder begins another file, the sender makes another connection. If the parent of an entry
// was dropped, or was sent on an earlier connection, the entry is sent below its nearest ancestor on this
// connection, or below the resource if there is no such ancestor. In this case, the sender adds these attributes
// to the entry
//
//	trace_id        the trace id of the span, or of the span to which the entry belongs
//	parent_span_id  the id of the parent span; a log record has it as span_id
//
// if the entry does not have them already. Readers can join traces by these attributes. To find ancestors, a
// sender remembers up to 64 Ki spans (those that most recently arrived or got children), and the last 16 Ki other
// entries. If it does not remember the parent of an entry, it sends the entry below the resource; a span then has
// its own trace_id. A sender also keeps the latest sixteen resources, and sends a resource again when an entry
// refers to it.
//
// # What is lost
//
// A sender drops and counts the entries that are recorded while its buffer is full, see [SenderStats]. The entry
// entrace.end, which the recorder writes when it is closed, has the counts of the recorder's file, not of the
// connection.
//
// # Trust
//
// A receiver does not trust senders. It decodes every entry before it writes the entry. The first invalid entry
// ends the connection, and the entries before it remain in the file. The receiver allocates memory for an entry
// when the entry's bytes arrive, not when its length arrives. The name of a file consists of the service's name,
// the time and a counter. In the service's name, the receiver percent-encodes bytes other than letters, digits and
// ._- characters. An address that other machines can reach needs a token, or TLS with client certificates, because
// TLS alone does not authenticate the sender. Loopback addresses and private unix sockets need neither.
//
// A receiver limits connections, memory and the received traces in its folder, see [Receiver]. It ends connections
// that are idle for ten minutes; a Sender then connects again when it has entries to send. If the folder reaches
// its limit or the disk is full, a received trace ends with its last complete entry, and [Received].Err has the
// reason. If the ET does not fit on the disk, the IET remains.
package remote
