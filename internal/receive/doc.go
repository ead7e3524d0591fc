// Package receive takes OTLP that programs send over HTTP and gRPC, and records it.
//
// A [Server] is an http.Handler for both protocols: POST /v1/traces and /v1/logs with
// protobuf or JSON, and the Export methods of the services for traces and logs. Metrics are
// counted and thrown away. A request is answered with success when a [Sink] has it.
//
// [Files] is a Sink with a file for each service, [One] one with a file for all of them. What
// they have is in the journal of a recorder: it survives the death of this process.
//
// # Why neither grpc nor pdata
//
// pdata's unmarshallers follow nested values without a bound, so that a request of 16 MiB
// ends the process; a gRPC server unmarshals before anybody can look. The gRPC protocol of
// calls with one message each way is five bytes before the message and three trailers behind
// the answer. So HTTP and gRPC have the same limits, made by the same code, on one port if
// need be.
//
// The sources are the OTLP specification 1.9
// (https://opentelemetry.io/docs/specs/otlp/) and "gRPC over HTTP2"
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
package receive
