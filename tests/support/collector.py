"""A collector of OpenTelemetry: it takes spans by OTLP over HTTP, as the SDK sends them."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from requests import Session


class Collector:
    """It answers inside the block."""

    def __init__(self) -> None:
        self._told: list[ResourceSpans] = []
        told = self._told

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                told.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the base class's name
                """Nothing on stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def provider(self, service: str) -> TracerProvider:
        """For a program of this name that tells this collector; end it with `shutdown`."""
        session = Session()
        session.trust_env = False
        provider = TracerProvider(resource=Resource({"service.name": service}), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=self.url, session=session)))
        return provider

    def of(self, name: str) -> list[Span]:
        """The spans of this name."""
        return [
            span
            for resource in list(self._told)
            for scope in resource.scope_spans
            for span in scope.spans
            if span.name == name
        ]

    def services(self) -> set[tuple[str, str]]:
        """Who told something: the service and its instance."""
        found = set()
        for told in list(self._told):
            about = {one.key: one.value.string_value for one in told.resource.attributes}
            found.add((about["service.name"], about.get("service.instance.id", "")))
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
