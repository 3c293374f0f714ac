"""The option `--http HOST:PORT` of all commands that run a daemon. Imports HTTP code only if the option is given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from bookie.addresses import strip_brackets

if TYPE_CHECKING:
    import socket

    from aiohttp import web

    from .http.config import HttpConfig
    from .http_content import HttpContent

F = TypeVar("F", bound=Callable[..., Any])


class Daemon(Protocol):
    """The daemon that a process runs, and its HTTP content."""

    def http_content(self) -> HttpContent: ...


class ConsolePages(Protocol):
    """Further pages to serve: those of the console."""

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes. ROUTES in `bookie.wire.trust.roles` contains an access rule for each."""
        ...

    def error_page(self, status: HTTPStatus, title: str, why: str) -> web.Response:
        """Returns the error page for a browser."""
        ...

    def open(self) -> AbstractAsyncContextManager[None]:
        """Serves requests inside the block."""
        ...


class HttpAddress(NamedTuple):
    """An address to listen on."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def address_option(name: str, help_text: str, *, required: bool = True) -> Callable[[F], F]:
    """Returns an option whose value is an HttpAddress, or None."""
    return click.option(name, metavar="HOST:PORT", callback=_address, required=required, help=help_text)


@asynccontextmanager
async def with_http(
    http: HttpAddress | None,
    daemon: Daemon,
    *,
    insecure: bool,
    certificates: Path | None = None,
    pages: ConsolePages | None = None,
    config: HttpConfig | None = None,
) -> AsyncIterator[str | None]:
    """Serves from the beginning of the block to its end. Yields the URL, or None if no address is given.

    With a directory of certificates, it also requires client certificates. Raises UsageError if the address is not
    allowed, and ValueError if it cannot be bound; errors raised in the block are passed on unchanged.
    """
    if http is None:
        yield None
        return
    from bookie.log_context import LIFE
    from bookie.wire.trust.certificates import Certificates

    from .http.server import serving_http
    from .loop_lag import watching_lag

    if not http.is_loopback and not insecure and certificates is None:
        raise click.UsageError(
            f"--http {http.host} is reachable from other machines, and without certificates every client can read "
            "its pages; give a loopback address, --certs (for a bookie), or --insecure to serve them anyway"
        )
    trust = Certificates(certificates) if certificates else None
    content = daemon.http_content()
    if pages is not None:
        content.pages, content.error_page = pages.routes(), pages.error_page
    async with (
        serving_http(
            http.host, http.port, content, trust, bound=bound_to("--http", http), config=config
        ) as address,
        watching_lag(content.registry),
        pages.open() if pages is not None else nullcontext(),
    ):
        url = f"{'https' if trust else 'http'}://{address}"
        LIFE.info("serving HTTP at %s", url)
        yield url


def bound_to(option: str, address: HttpAddress) -> socket.socket:
    """Returns a socket that listens on the address given by an option. Raises ValueError with the option's name and a
    remedy."""
    from bookie.wire.data import sockets

    try:
        return sockets.bound(address.host, address.port)
    except OSError as error:
        raise ValueError(
            f"cannot listen on {option} {address.host}:{address.port}: {sockets.why_not_bound(error)}"
        ) from error


def _address(_: click.Context, option: click.Parameter, text: str | None) -> HttpAddress | None:
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    host = strip_brackets(host)
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9181", param=option)
    return HttpAddress(host, int(port))


http_option = address_option(
    "--http",
    "Serve /healthz, /readyz, /metrics, /api/v1 and the console at this address; port 0 picks a free one.",
    required=False,
)
"""`http`: the address to serve on, or None."""
