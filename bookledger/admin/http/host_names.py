"""Checks the Host header of loopback daemons, against DNS rebinding by web pages.

A browser on this machine may request `http://evil.example:9181/` for a page of evil.example, which may then
read the response. By its address such a request is local, like the operator's own; by its Host it is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from .problems import document

NAME_SHOWN_MAX = 253
"""Of what somebody says that we are called: no name is longer."""


def asked_by(own_names: Iterable[str]) -> Middleware:
    """Answers 421 to who asks for another name than a loopback one or one of these.

    Who sends no Host passes: every browser does.
    """
    own = {name.lower() for name in own_names}

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        for host in request.headers.getall("Host", ()):
            name = _without_port(host)
            if not (is_loopback(name) or name in own):
                why = f"{name[:NAME_SHOWN_MAX]!r} is no name of this machine's loopback: ask for 127.0.0.1 or localhost"
                return document(
                    HTTPStatus.MISDIRECTED_REQUEST, why
                )  # and no page of ours under another's name
        return await handler(request)

    return guard


def is_loopback(host: str) -> bool:
    """Whether it is an address of loopback or a name that every resolver keeps for it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _without_port(host: str) -> str:
    """`127.0.0.1:9181`, `[::1]:9181`, `localhost.`: the name alone, as it is compared."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")
