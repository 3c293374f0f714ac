"""A daemon's HTTP server for operators: liveness, readiness, metrics.

    /healthz   200 as long as the process answers
    /readyz    200 while clients may use it; else 503 with the reason
    /metrics   for Prometheus

and further pages that the caller passes: the API and the console. Errors are problem documents, and pages for browsers.

With certificates, `bookie/wire/trust/roles` defines who may request what; without, every client that reaches the port
may read all of it, except web pages that address a loopback port by another host name. The server is read-only.
Connections, requests, their durations and their share of the event loop are bounded, so that no unknown peer disturbs
the daemon.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client.exposition import choose_encoder

from bookie.wire.connection_table import ConnectionTable
from bookie.wire.data import sockets
from bookie.wire.tls_accept import TlsAccept
from bookie.wire.trust.certificates import Certificates
from metadata.counting.facts import why_not_ready

from ..health_metrics import HealthMetrics
from ..http_content import HttpContent
from . import log_rate_limit
from .config import HttpConfig
from .gate import Gate, knowing, table_of
from .guard import guard_of
from .host_names import asked_by, is_loopback
from .loop_share import LoopShare
from .metrics import HttpMetrics
from .problems import Problem, Protocol, answering_problems

REQUEST_BYTES_MAX = 1024
"""Maximum size of a request's body; no request needs one."""

REQUEST_SECONDS_MAX = 10.0
"""How long a connection may be idle or send part of a request; clients reconnect at no cost."""

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
    """Serves inside the block, and yields the address; uses an already bound socket if one is given.

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
    # A request whose client has gone is cancelled; otherwise the limit of connections would not limit requests.
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=STOP_SECONDS_MAX)
    try:
        await runner.setup()
        assert runner.server is not None
        protocol = partial(
            Protocol,
            runner.server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # none is kept
            logger=log_rate_limit.log,
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
    """Each has a rule in ROUTES."""
    return [
        web.get("/healthz", _healthz),
        web.get("/readyz", _readyz_of(content)),
        web.get("/metrics", _metrics_of(content)),
        *content.pages,
    ]


def _guards(address: str, host: str, certificates: Certificates | None) -> list[Middleware]:
    """The host names of a port on more than loopback are unknown, so only loopback ports check them."""
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
