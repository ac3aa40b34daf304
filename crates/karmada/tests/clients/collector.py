"""An OTLP collector: grpcio with the messages of opentelemetry-proto. Prints its port, then each span as a line of JSON."""

import json
from concurrent import futures

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2


def plain(attributes):
    return {it.key: getattr(it.value, it.value.WhichOneof("value")) for it in attributes}


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        # Everything that was sent is known to the definition.
        assert not request.FindInitializationErrors()
        for source in request.resource_spans:
            for scope in source.scope_spans:
                for span in scope.spans:
                    line = {
                        "source": plain(source.resource.attributes),
                        "scope": scope.scope.name,
                        "name": span.name,
                        "kind": trace_pb2.Span.SpanKind.Name(span.kind),
                        "trace": span.trace_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "nanos": span.end_time_unix_nano - span.start_time_unix_nano,
                        "attributes": plain(span.attributes),
                    }
                    print(json.dumps(line), flush=True)
        return trace_service_pb2.ExportTraceServiceResponse()


server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Collector(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
