"""Exports a daemon's spans to an OpenTelemetry collector, using OTLP over HTTP. Imports nothing unless a collector is
set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

EXPORT_SECONDS_MAX = 2.0
"""How long a collector may take for one message. The SDK limits the queue, and drops spans that do not fit."""


@contextmanager
def tracing_to(url: str | None, service: str, instance: Callable[[], str]) -> Iterator[TracerProvider | None]:
    """Yields a provider of spans for this collector, or None without a URL. The last spans are sent when the block
    ends.

    As usual, OTEL_TRACES_SAMPLER and related variables set the share of traces that is kept.
    """
    if url is None:
        yield None
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    who = {"service.name": service, "service.instance.id": instance()}
    provider = TracerProvider(resource=Resource.create(who), shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=EXPORT_SECONDS_MAX))
    )
    try:
        yield provider
    finally:
        provider.shutdown()


def _url(_: click.Context, option: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    if not text.startswith(("http://", "https://")):
        raise click.BadParameter(
            f"{text!r} is not a URL such as http://127.0.0.1:4318/v1/traces", param=option
        )
    if not _is_installed():
        raise click.UsageError("OpenTelemetry is not installed: pip install 'bookledger[otel]'")
    return text


def _is_installed() -> bool:
    """Returns whether the span exporter is installed, along with the SDK, which the exporter requires."""
    try:
        return find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:  # not even its parent package is installed
        return False


traces_option = click.option(
    "--traces",
    metavar="URL",
    envvar="BOOKLEDGER_TRACES",
    callback=_url,
    help="Send OpenTelemetry spans to this URL, such as http://127.0.0.1:4318/v1/traces (the extra otel). Also from "
    "BOOKLEDGER_TRACES.",
)
"""`traces`: the collector's URL, or None."""
