"""Checks the Host header of loopback daemons, against DNS rebinding by web pages.

A browser on this machine may request `http://evil.example:9181/` for a page of evil.example, which could then read the
response. By its address such a request is local, like the operator's own; by its Host header it is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from .problems import document

NAME_SHOWN_MAX = 253
"""Characters shown of a Host header; no valid name is longer."""


def asked_by(own_names: Iterable[str]) -> Middleware:
    """Answers 421 to requests with another Host than a loopback name or one of these.

    Requests without a Host pass, because every browser sends one.
    """
    own = {name.lower() for name in own_names}

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        for host in request.headers.getall("Host", ()):
            name = _without_port(host)
            if not (is_loopback(name) or name in own):
                why = f"{name[:NAME_SHOWN_MAX]!r} is not a loopback name of this machine: use 127.0.0.1 or localhost"
                return document(
                    HTTPStatus.MISDIRECTED_REQUEST, why
                )  # and no page of ours under another host name
        return await handler(request)

    return guard


def is_loopback(host: str) -> bool:
    """Whether it is a loopback address, or a name that every resolver reserves for it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _without_port(host: str) -> str:
    """The bare name, for comparison, of `127.0.0.1:9181`, `[::1]:9181` or `localhost.`."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")
