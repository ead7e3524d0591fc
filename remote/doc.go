// Package remote sends the entries of a recorder over the network, and receives entries from other senders. It
// uses TCP, TLS and unix sockets, and the protocol of ENTRACE's own clients.
//
// A [Sender] is a [recorder.Tee]: a recorder uses it in addition to its file, or, with [recorder.Stream], in
// place of a file. A [Receiver] accepts any number of senders, of this package or of ENTRACE, and writes a file
// for each connection.
//
// # Protocol
//
// A connection is an IETPrefix stream, see package format: the magic, and then each entry after its length in
// eight bytes. The receiver sends nothing. A connection that needs a token begins with a line
//
//	ENTRACE-TOKEN 736563726574…\n
//
// with the bytes of the token in lower-case hex. ENTRACE's own programs do not support that line. TLS has
// version 1.3 or later.
//
// The protocol has no acknowledgements. So a sender does not know whether the last entries before a connection
// broke have arrived: they count as sent and are not sent again. A receiver may refuse a sender with a token or
// TLS. To avoid losing entries in this case, such a sender waits a fifth of a second after the root before it
// sends more.
//
// # What a connection holds
//
// Each connection is a separate trace, with its own ids: the root, the latest resource, and then the recorded
// entries. When the recorder begins another file, the sender makes another connection. If the parent of an
// entry was dropped, or was sent over an earlier connection, the entry is sent below its nearest ancestor on
// this connection. If no ancestor is on this connection, the entry is sent below the resource. The entry then
// gets the attributes
//
//	trace_id        the trace id of the span, or of the span to which the entry belongs
//	parent_span_id  the id of the span above; a log record has it as span_id
//
// unless it has them already. Readers can join traces by these attributes. For this a sender remembers up to 64
// Ki spans, namely the spans that most recently had children, and the last 16 Ki other entries. If it does not
// remember the parent of an entry, it sends the entry below the resource, with the entry's own trace_id if the
// entry is a span. If entries refer to one of the latest sixteen resources, the sender sends the resource
// again.
//
// # What is lost
//
// Entries that are recorded while the buffer is full are dropped and counted, see [SenderStats]. When the
// recorder is closed it records an entry entrace.end with the recorder's own counts, which count the entries of
// the file.
//
// # Trust
//
// A receiver does not trust senders. It decodes every entry before it writes the entry. The first invalid entry
// ends the connection, and the entries before it are kept. The length of an entry costs no memory before the
// bytes of the entry arrive. The name of a file consists of the service's name, the time and a counter; in the
// service's name every byte other than letters, digits and ._- is written as %XX. An address that other
// machines can reach needs a token, or TLS with client certificates, because TLS alone does not authenticate
// the sender. Loopback addresses and private unix sockets need neither.
//
// A receiver limits connections, memory and the received traces in its folder, see [Receiver]. It ends
// connections that are idle for ten minutes; a Sender connects again when it has something to send. When the
// folder reaches its limit or the disk is full, a trace ends with its last whole entry and [Received].Err is
// the reason. If the ET does not fit on the disk, the IET is kept.
package remote
