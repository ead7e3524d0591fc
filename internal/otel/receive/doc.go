// Package receive receives OTLP from other programs over HTTP and gRPC, and records it.
//
// A [Server] is an http.Handler for both protocols. It accepts POST to /v1/traces and /v1/logs with protobuf or
// JSON, and the Export methods of the gRPC services for traces and logs. Metrics are counted and discarded. The
// Server answers with success once a [Sink] has accepted the request.
//
// [Files] is a Sink with a file for each service, or with one file for all services. Accepted records are in the
// journal of a recorder, so they survive the death of this process.
//
// # Why neither grpc nor pdata
//
// The unmarshallers of pdata follow nested values without a limit, so a request of 16 MiB can end the process. A
// gRPC server unmarshals a message before other code can check it. For calls with one message in each direction,
// the gRPC protocol is small: five bytes before the message, and three trailers after the answer. With an
// implementation of its own, this package has the same limits for HTTP and gRPC, and both can use one port.
//
// The sources are the OTLP specification 1.9
// (https://opentelemetry.io/docs/specs/otlp/) and "gRPC over HTTP2"
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
package receive
