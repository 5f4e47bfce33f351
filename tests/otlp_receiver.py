"""Receivers of OTLP over HTTP and over gRPC, made of the protocol's own classes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tierscope.telemetry.otlp import span_exporter

HELD_SECONDS = 30


def attributes_on(carrier):
    """Attributes of a span, a point or a resource, as a dictionary."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in carrier.attributes}


class Received:
    """Keeps every request. While `hold` is set a receiver does not answer; `refuse` lets it say no."""

    endpoint: str
    """Where spans go."""
    metrics_endpoint: str

    def __init__(self) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self.pushes: list[metrics_service_pb2.ExportMetricsServiceRequest] = []
        self.asked = 0
        """How often it was sent anything, whether or not it took it."""
        self.hold = False
        self.refuse = False
        self._release = threading.Event()

    @property
    def spans(self):
        """Every span received so far, in order."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def services(self):
        """Name of the service of every span received, by span id."""
        return {
            span.span_id: attributes_on(resource.resource)["service.name"]
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def await_spans(self, count, seconds=20.0):
        """Return the spans once there are `count` of them or time is up."""
        self.wait(lambda: len(self.spans) >= count, seconds)
        return self.spans

    def wait(self, holds, seconds=20.0):
        """Return whether it holds before time is up."""
        deadline = time.monotonic() + seconds
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.01)
        return holds()

    def release(self) -> None:
        """Answer what was held."""
        self.hold = False
        self._release.set()

    def _answer_held(self) -> None:
        self.asked += 1
        if self.hold:
            self._release.wait(HELD_SECONDS)


class OtlpReceiver(Received):
    """OTLP/HTTP with protobuf. `status` is what it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.paths.append(self.path)
                receiver._answer_held()
                status, answer = receiver._take(self.path, body)
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(answer.SerializeToString())

            def log_message(self, *_) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address) -> None:
                pass  # a sender that gave up on us

        self._server = Server(("127.0.0.1", 0), Handler)
        base = f"http://127.0.0.1:{self._server.server_port}"
        self.endpoint = f"{base}/v1/traces"
        self.metrics_endpoint = f"{base}/v1/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def _take(self, path, body):
        status = 400 if self.refuse else self.status
        if path == "/v1/metrics":
            if status == 200:
                self.pushes.append(metrics_service_pb2.ExportMetricsServiceRequest.FromString(body))
            return status, metrics_service_pb2.ExportMetricsServiceResponse()
        if path != "/v1/traces":
            status = 404
        if status == 200:
            self.requests.append(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
        return status, trace_service_pb2.ExportTraceServiceResponse()

    def close(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class GrpcOtlpReceiver(Received):
    """OTLP/gRPC, both services on one port."""

    def __init__(self) -> None:
        super().__init__()
        receiver = self

        class Traces(trace_service_pb2_grpc.TraceServiceServicer):
            def Export(self, request, context):
                receiver._take(receiver.requests, request, context)
                return trace_service_pb2.ExportTraceServiceResponse()

        class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
            def Export(self, request, context):
                receiver._take(receiver.pushes, request, context)
                return metrics_service_pb2.ExportMetricsServiceResponse()

        # without this option two servers could share a port and each other's requests
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), self._server)
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.endpoint = self.metrics_endpoint = f"http://127.0.0.1:{port}"
        self._server.start()

    def _take(self, kept, request, context) -> None:
        self._answer_held()
        if self.refuse:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "refused")
        kept.append(request)

    def close(self) -> None:
        self.release()
        self._server.stop(grace=0).wait()


RECEIVERS = {"http": OtlpReceiver, "grpc": GrpcOtlpReceiver}
"""By protocol, as the settings name it."""


@contextmanager
def tracer_to(receiver, protocol, service_name):
    """A service of somebody else's, which sends each span to the receiver as it ends."""
    provider = TracerProvider(resource=Resource({"service.name": service_name}), shutdown_on_exit=False)
    exporter = span_exporter(receiver.endpoint, protocol, timeout_seconds=5)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    try:
        yield provider.get_tracer(service_name)
    finally:
        provider.shutdown()
