"""A daemon's HTTP server for operators: liveness, readiness, metrics.

    /healthz   200 as long as the process responds
    /readyz    200 while clients may use it; otherwise 503 with the reason
    /metrics   for Prometheus

It also serves further pages that the caller passes: the API and the console. Errors are problem documents, or pages for
browsers.

With certificates, `bookie/wire/trust/roles` defines who may request what. Without them, every client that reaches the
port may read everything on it, except web pages that address a loopback port by another host name. The server is
read-only. Connections, requests, their durations and their share of the event loop are bounded, so that no unknown peer
can disturb the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from ipaddress import ip_address

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from bookie.wire.connection_table import ConnectionTable
from bookie.wire.data import sockets
from bookie.wire.tls_accept import TlsAccept
from bookie.wire.trust.certificates import Certificates
from metadata.counting.facts import why_not_ready
from metadata.counting.metric_declarations import MetricTable
from metadata.rate_limit import LogRateLimit

from ..health_metrics import HealthMetrics
from ..http_content import HttpContent
from .config import HttpConfig
from .gate import Gate, knowing, table_of
from .guard import guard_of
from .loop_share import LoopShare
from .problems import Problem, Protocol, answering_problems, document

# Checks the Host header of daemons on loopback ports, to prevent DNS rebinding by web pages.
#
# A browser on this machine may request `http://evil.example:9181/` for a page of evil.example, which could then read
# the response. By its address, such a request is local, like one from the operator; by its Host header, it is not.

NAME_SHOWN_MAX = 253
"""Maximum number of characters shown of a Host header; no valid name is longer."""


def asked_by(own_names: Iterable[str]) -> Middleware:
    """Returns middleware that answers 421 to requests whose Host is neither a loopback name nor in `own_names`.

    Requests without a Host are allowed: they do not come from browsers, which always send one.
    """
    own = {name.lower() for name in own_names}

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        for host in request.headers.getall("Host", ()):
            name = _without_port(host)
            if not (is_loopback(name) or name in own):
                why = f"{name[:NAME_SHOWN_MAX]!r} is not a loopback name of this machine: use 127.0.0.1 or localhost"
                # Never an HTML page, because the request is for another host name.
                return document(HTTPStatus.MISDIRECTED_REQUEST, why)
        return await handler(request)

    return guard


def is_loopback(host: str) -> bool:
    """Returns whether the host is a loopback address, or a name that every resolver reserves for it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _without_port(host: str) -> str:
    """Returns the bare name from `127.0.0.1:9181`, `[::1]:9181` or `localhost.`, for comparison."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


LOG_INTERVAL_SECONDS = 10.0
"""Minimum number of seconds between two log lines of the same kind; the next line counts the suppressed ones."""

log = logging.getLogger(__name__)


class _RateLimitFilter(logging.Filter):
    """Logs invalid requests, which unknown clients may send, without a traceback. Errors of our own code keep their
    tracebacks. Limits the rate of both."""

    def __init__(self) -> None:
        super().__init__()
        self._ours, self._theirs = LogRateLimit(LOG_INTERVAL_SECONDS), LogRateLimit(LOG_INTERVAL_SECONDS)

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        is_ours = error is not None and not isinstance(error, HttpProcessingError)
        left_out = (self._ours if is_ours else self._theirs).admit(time.monotonic())
        if left_out is None:
            return False
        self._settle(
            record, error, f" ({left_out} more were suppressed)" if left_out else "", is_ours=is_ours
        )
        return True

    @staticmethod
    def _settle(record: logging.LogRecord, error: BaseException | None, more: str, *, is_ours: bool) -> None:
        if is_ours or error is None:
            record.msg = f"{record.getMessage()}{more}"
        else:
            # The error's message contains the received data, perhaps a password; the name of its class does not.
            record.msg = f"invalid HTTP request{more}: {type(error).__name__}"
            record.levelno, record.levelname, record.exc_info = logging.INFO, "INFO", None
        record.args = ()


log.addFilter(_RateLimitFilter())


METRICS = MetricTable("http", "The HTTP port of a daemon")

CONNECTIONS = METRICS.gauge("connections", "Connections of the HTTP port.")
LIMIT = METRICS.gauge("connections_limit", "Limit of concurrent connections of the HTTP port.")
REFUSED = METRICS.counter("connections_refused", "Connections refused because the port was full.")
MADE_WAY = METRICS.counter(
    "connections_made_way",
    "Connections closed in favour of others: they were idle, or from the address with the most connections.",
)


class HttpMetrics(Collector):
    """Metrics of one port."""

    def __init__(self, table: ConnectionTable, config: HttpConfig) -> None:
        self._table = table
        self._config = config

    def collect(self) -> Iterator[Metric]:
        yield CONNECTIONS.of(self._table.count)
        yield LIMIT.of(self._config.connections_max)
        yield REFUSED.of(self._table.refused)
        yield MADE_WAY.of(self._table.made_way)


REQUEST_BYTES_MAX = 1024
"""Maximum size of a request's body; no request needs a body."""

REQUEST_SECONDS_MAX = 10.0
"""How long a connection may be idle or take to send a request; clients can reconnect at no cost."""

STOP_SECONDS_MAX = 1.0


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving_http(
    host: str,
    port: int,
    content: HttpContent,
    certificates: Certificates | None = None,
    *,
    bound: socket.socket | None = None,
    config: HttpConfig | None = None,
) -> AsyncIterator[str]:
    """Serves inside the block, and yields the address. Uses an already bound socket if one is given.

    Raises OSError if it cannot listen.
    """
    config = config or HttpConfig()
    table = table_of(config)
    bound = bound or sockets.bound(host, port)
    app = web.Application(
        client_max_size=REQUEST_BYTES_MAX,
        middlewares=[
            knowing,
            answering_problems(content.error_page),
            LoopShare(config.loop_share).middleware(),
            *_guards(bound.getsockname()[0], host, certificates),
        ],
    )
    app.add_routes(routes_of(content))
    # Cancels requests whose clients have gone; otherwise the limit on connections would not limit requests.
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=STOP_SECONDS_MAX)
    try:
        await runner.setup()
        assert runner.server is not None
        protocol = partial(
            Protocol,
            runner.server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # none is kept
            logger=log,
            keepalive_timeout=REQUEST_SECONDS_MAX,
        )
        content.registry.register(HttpMetrics(table, config))
        content.registry.register(HealthMetrics(content.findings))
        async with _accepting(bound, table, protocol, certificates):
            name = f"[{host}]" if ":" in host else host
            yield f"{name}:{bound.getsockname()[1]}"
    finally:
        await runner.cleanup()
        bound.close()


def routes_of(content: HttpContent) -> list[web.RouteDef]:
    """Returns all routes. ROUTES in `bookie.wire.trust.roles` contains an access rule for each."""
    return [
        web.get("/healthz", _healthz),
        web.get("/readyz", _readyz_of(content)),
        web.get("/metrics", _metrics_of(content)),
        *content.pages,
    ]


def _guards(address: str, host: str, certificates: Certificates | None) -> list[Middleware]:
    """Returns the middleware that guards a port. Only loopback ports check the Host header, because the host names of
    other ports are unknown."""
    if certificates is not None:
        return [guard_of(certificates)]
    return [asked_by({address, host})] if is_loopback(address) else []


@asynccontextmanager
async def _accepting(
    bound: socket.socket,
    table: ConnectionTable,
    inside: Callable[[], asyncio.Protocol],
    certificates: Certificates | None,
) -> AsyncIterator[None]:
    if certificates is not None:
        accept = TlsAccept(bound, table, lambda: certificates.http, partial(Gate, table, inside))
        try:
            yield
        finally:
            await accept.close()
        return
    server = await sockets.listen(bound, lambda: Gate(table, inside))
    try:
        yield
    finally:
        await sockets.stop_listening(server)


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


def _readyz_of(content: HttpContent) -> Answer:
    async def readyz(_: web.Request) -> web.Response:
        if why := why_not_ready(content.findings()):
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, why)
        return web.Response(text="ok\n")

    return readyz


def _metrics_of(content: HttpContent) -> Answer:
    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(content.registry), headers={"Content-Type": content_type})

    return metrics
