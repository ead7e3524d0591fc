// Package receive takes OTLP that programs send over HTTP and gRPC, and records it.
//
// A [Server] is an http.Handler for both protocols: POST /v1/traces and /v1/logs with
// protobuf or JSON, and the Export methods of the services for traces and logs. Metrics are counted and
// discarded. A request is answered with success when a [Sink] has accepted it.
//
// [Files] is a Sink with a file for each service, or with one file for all services. Records that it has
// accepted are in the journal of a recorder: they survive the death of this process.
//
// # Why neither grpc nor pdata
//
// pdata's unmarshallers follow nested values without a bound, so that a request of 16 MiB ends the
// process. A gRPC server unmarshals a message before other code can check it. The gRPC protocol for calls
// with one message each way is small: five bytes before the message and three trailers after the answer.
// So HTTP and gRPC have the same limits, implemented by the same code, and can share one port.
//
// The sources are the OTLP specification 1.9
// (https://opentelemetry.io/docs/specs/otlp/) and "gRPC over HTTP2"
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
package receive
