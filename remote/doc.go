// Package remote sends what a recorder records over the network and receives what
// others send: TCP, TLS and unix sockets, in the way of ENTRACE's own clients.
//
// A [Sender] is a [recorder.Tee]: give it to a recorder beside its file, or instead
// of one with [recorder.Stream]. A [Receiver] takes any number of senders, this
// package's or ENTRACE's, and makes each connection a file.
//
// # Protocol
//
// A connection is an IETPrefix stream, see package format: the magic, then every
// entry behind its length of eight bytes. The sender says this and the receiver
// nothing. A connection that needs a token begins with a line,
//
//	ENTRACE-TOKEN 736563726574…\n
//
// with the bytes of the token in lower-case hex; ENTRACE's own programs do not
// know that line. TLS is of version 1.3 at least.
//
// Without acknowledgements nobody knows whether the last entries before a
// connection broke have arrived: they count as sent and are not sent again. So
// that one who is refused does not lose what it has, a sender with a token or TLS
// waits a fifth of a second after the root before it goes on.
//
// # What a connection holds
//
// Each is a trace of its own, with its own ids: the root, the latest resource,
// then what was recorded. When the recorder begins another file so does the
// sender. An entry whose parent was dropped, or went over an earlier connection,
// comes below its nearest ancestor that is there, else below the resource, with
// the attributes
//
//	trace_id        the span's, or that of the span it belongs to
//	parent_span_id  the span it is below; for a log record that is span_id
//
// unless it has them already, so that traces can be put together by them. For this
// a sender remembers up to 64 Ki spans, those that had children last, and the last
// 16 Ki other entries; what it does not remember comes below the resource, with
// its own trace_id if it is a span. Resources that are referred to are sent again,
// the latest sixteen.
//
// # What is lost
//
// What is recorded while the buffer is full is dropped and counted, see
// [SenderStats]. The entry entrace.end, where the recorder closed in order, has the
// recorder's own account: its number of entries is that of the file.
//
// # Trust
//
// A receiver believes nothing. Every entry is decoded before it is written, and
// the first one that is wrong ends the connection, with what came before kept; a
// length that is claimed costs no memory. Names of files are made of the service's name,
// of which letters, digits and ._- stay, of the time and a counter. An address that other machines can reach needs a token or TLS with client
// certificates; TLS alone does not tell who sends. Loopback addresses and private unix
// sockets need neither.
//
// A receiver limits connections, memory and the received traces in its folder, see
// [Receiver]. It ends connections that are idle for ten minutes; a Sender connects again
// when it has something to send. When the folder reaches its limit or the disk is full,
// a trace ends with its last whole entry and [Received].Err says why. If there is no
// room for the ET the IET stays.
package remote
