"""The routes of the console and of the API, for one cluster. Everything is closed when the block ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from bookledger.admin.api.metadata_view import LOST_AFTER_SECONDS, MetadataView
from bookledger.admin.api.routes import api_routes
from bookledger.admin.http.problems import Problem
from ledgers.config import PLAIN_TEXT, ClientConfig

from . import pages
from .live import LOOK_SECONDS, Live
from .rendering import HEADERS, static
from .sources import Sources

STREAMS_MAX = 16
"""Maximum number of open pages that are told when to refresh, each over one connection. Further pages refresh on a
slower timer."""


class Streams:
    """All open streams. Each sends one short line every LOOK_SECONDS."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._open = 0
        self._ending = asyncio.Event()

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Streams events until the browser disconnects or the daemon stops."""
        if self._open >= STREAMS_MAX:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
        self._open += 1
        try:
            return await self._send_events(request)
        finally:
            self._open -= 1

    def end(self) -> None:
        """Ends all streams."""
        self._ending.set()

    async def _send_events(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream"})
        await answer.prepare(request)
        try:
            await answer.write(b": open\n\n")
            while not await self._ends_within(LOOK_SECONDS):
                self._live.look_on()
                await answer.write(b"event: look\ndata: again\n\n")
        except ConnectionError:  # the page was closed
            pass
        return answer

    async def _ends_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return False
        return True


PAGES = {
    "/": pages.overview,
    "/bookies": pages.bookies,
    "/bookies/{bookie_id}": pages.one_bookie,
    "/ledgers": pages.ledgers,
    "/ledgers/{ledger_id}": pages.one_ledger,
    "/ledgers/{ledger_id}/entries": pages.ledger_entries,
    "/healing": pages.healing,
    "/logs": pages.logs,
    "/logs/{log}": pages.one_log,
    "/journals": pages.all_journals,
}


class Console:
    """The console of one cluster. It is created before the HTTP server, and entered while the server runs, so that open
    pages end before the server does."""

    def __init__(
        self,
        metadata_uri: str,
        *,
        lost_after_seconds: float = LOST_AFTER_SECONDS,
        shows_entries: bool = False,
        config: ClientConfig | None = None,
    ) -> None:
        """Connects on the first request. `config`: for the client that calls the bookies; by default taken from the
        environment."""
        self._sight = MetadataView(metadata_uri, lost_after_seconds=lost_after_seconds)
        self._live = Live(self._sight, metadata_uri, config)
        self._sight.ask_bookies = self._live.ask_bookies
        self._sight.ask_lag = self.ask_lag = self._live.ask_lag
        self._sight.silent = self._live.silent
        self._streams = Streams(self._live)
        self._sources = Sources(self._sight, self._live, shows_entries)

    @classmethod
    def of_daemon(
        cls,
        metadata_uri: str,
        certificates: Path | None,
        *,
        lost_after_seconds: float = LOST_AFTER_SECONDS,
    ) -> Console:
        """Returns the console of a daemon. It uses the daemon's certificates, or plain text if the daemon has none."""
        own = ClientConfig(certificates=str(certificates) if certificates else PLAIN_TEXT)
        return cls(metadata_uri, lost_after_seconds=lost_after_seconds, config=own)

    def routes(self) -> list[web.RouteDef]:
        """Returns all routes. ROUTES in `bookie.wire.trust.roles` contains an access rule for each."""
        return [
            *api_routes(self._sight),
            *(web.get(path, pages.handler(draw, self._sources)) for path, draw in PAGES.items()),
            web.get("/events", self._streams.events),
            web.get("/static/{name}", static),
        ]

    error_page = staticmethod(pages.error_page)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serves requests inside the block."""
        async with self._sight:
            try:
                yield
            finally:
                self._streams.end()
                await self._live.stop()
