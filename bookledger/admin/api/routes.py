"""The API's HTTP routes. Parameters are validated. Errors are problem documents; if the metadata is unavailable, the
status is 503."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web

from bookie.program_version import program_version

from ..http.problems import Problem
from .metadata_view import Away, MetadataView
from .table import PATHS, PREFIX, Path, openapi

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def api_routes(sight: MetadataView) -> list[web.RouteDef]:
    """Returns the API's routes. ROUTES in `bookie.wire.trust.roles` contains an access rule for each."""
    described = openapi(program_version())

    async def document(_: web.Request) -> web.Response:
        return web.json_response(described)

    routes = [web.get(PREFIX + one.path, _handler(one, sight)) for one in PATHS]
    return [*routes, web.get(f"{PREFIX}/openapi.json", document)]


def _handler(one: Path, sight: MetadataView) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        try:
            given = {**request.query, **request.match_info}
            _check_known(given, one)
            values = [parameter.read(given) for parameter in one.parameters]
            found = await one.ask(sight, *values)
        except ValueError as error:
            raise Problem(HTTPStatus.BAD_REQUEST, str(error)) from None
        except Away as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "not found")
        return web.json_response(found)

    return handle


def _check_known(given: Mapping[str, str], one: Path) -> None:
    """Raises ValueError for an unknown filter, because ignoring it would lead to a wrong response."""
    known = [parameter.name for parameter in one.parameters]
    for name in given.keys() - set(known):
        raise ValueError(f"{name}: unknown parameter; the known ones are: {', '.join(known) or 'none'}")
