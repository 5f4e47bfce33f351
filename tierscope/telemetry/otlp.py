"""How telemetry leaves over OTLP: the library's exporters by protocol, addresses checked, who we are."""

from __future__ import annotations

from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as grpc_metrics
from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as grpc_spans
from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_spans
from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace.export import SpanExporter

from tierscope.domain.errors import BadSettings, TierscopeError
from tierscope.domain.settings import OtlpProtocol

EXPORT_TIMEOUT_SECONDS = 5.0
"""Longest time one request may take, retries included."""

POINTS_PER_REQUEST = 2_000
"""A histogram's point takes some hundred bytes, and gRPC receivers refuse 4 MiB."""

SCOPE = "tierscope"
"""The instrumentation scope of everything we send."""


def span_exporter(endpoint: str, protocol: OtlpProtocol, *, timeout_seconds: float) -> SpanExporter:
    """Return what sends spans; raises `BadSettings` for an address that does not fit the protocol.

    Headers, certificates and compression follow OpenTelemetry's own environment variables.
    """
    _check_address(endpoint, protocol, setting="otlp_endpoint", path="/v1/traces")
    if protocol is OtlpProtocol.GRPC:
        return grpc_spans.OTLPSpanExporter(endpoint, timeout=timeout_seconds)
    return http_spans.OTLPSpanExporter(endpoint, timeout=timeout_seconds)


def metric_exporter(endpoint: str, protocol: OtlpProtocol, *, timeout_seconds: float) -> MetricExporter:
    """Return what sends metrics; otherwise as `span_exporter`."""
    _check_address(endpoint, protocol, setting="otlp_metrics_endpoint", path="/v1/metrics")
    if protocol is OtlpProtocol.GRPC:
        return grpc_metrics.OTLPMetricExporter(
            endpoint, timeout=timeout_seconds, max_export_batch_size=POINTS_PER_REQUEST
        )
    return http_metrics.OTLPMetricExporter(
        endpoint, timeout=timeout_seconds, max_export_batch_size=POINTS_PER_REQUEST
    )


def resource_of(service_name: str, service_instance: str | None) -> Resource:
    """Return who sends; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES add to it and win over it."""
    named = {SERVICE_NAME: service_name}
    if service_instance is not None:
        named[SERVICE_INSTANCE_ID] = service_instance
    return Resource.create({**named}).merge(OTELResourceDetector().detect())


def _check_address(endpoint: str, protocol: OtlpProtocol, *, setting: str, path: str) -> None:
    if _fits(endpoint, protocol):
        return
    if protocol is OtlpProtocol.GRPC:
        fix = "give scheme, host and port alone, e.g. http://127.0.0.1:4317 (https:// for TLS)"
    else:
        fix = f"give the full OTLP/HTTP address, e.g. http://127.0.0.1:4318{path}"
    problem = TierscopeError(
        f"nothing can be sent to {endpoint!r} over OTLP/{protocol.value}", where=setting, fix=fix
    )
    raise BadSettings([problem])


def _fits(endpoint: str, protocol: OtlpProtocol) -> bool:
    """Whether an address can be of this protocol: the path tells them apart."""
    try:
        parts = urlsplit(endpoint)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
            return False
    except ValueError:
        return False
    has_path = parts.path not in {"", "/"}
    if protocol is OtlpProtocol.GRPC:
        return parts.port is not None and not has_path and not parts.query
    return has_path
