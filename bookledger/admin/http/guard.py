"""Authorization over HTTP: checks each request against the rights of the client's certificate."""

from __future__ import annotations

from contextvars import ContextVar
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bookie.wire.trust.certificates import Certificates
from bookie.wire.trust.identity import NoIdentity, Peer
from bookie.wire.trust.roles import ROUTES
from metadata.audit import Act, record_audit

from .problems import Problem

_PEER: ContextVar[Peer | None] = ContextVar("peer", default=None)
"""The identity of the client certificate of the current request."""


def guard_of(certificates: Certificates) -> Middleware:
    """Returns middleware that refuses requests not allowed by the client's certificate, with 403 and the reason."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if resource is None:  # the path does not exist, so rights do not matter
            return await handler(request)
        who = _peer(request, certificates)
        _PEER.set(who)
        if why := who.may_not(ROUTES[resource.canonical]):
            who.record_audit(Act.REFUSED, why)
            raise Problem(HTTPStatus.FORBIDDEN, why)
        return await handler(request)

    return guard


def peer_of(request: web.Request) -> Peer:
    """Returns the peer of a request; without certificates, only its address."""
    return _PEER.get() or Peer.of(request.remote or "", None)


def _peer(request: web.Request, certificates: Certificates) -> Peer:
    """Returns the peer of a request. Raises Problem if the peer has no identity."""
    address = request.remote or ""
    assert request.transport is not None, "nothing has been awaited since it came"
    try:
        identity = certificates.identity_of(request.transport.get_extra_info("ssl_object"))
    except NoIdentity as error:
        record_audit(Act.REFUSED, str(error), where=address)
        raise Problem(HTTPStatus.FORBIDDEN, str(error)) from None
    return Peer.of(address, identity)
