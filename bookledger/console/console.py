"""The routes of the console and the API of one cluster. Everything closes when the block ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from bookledger.admin.api.metadata_view import LOST_AFTER_SECONDS, MetadataView
from bookledger.admin.api.routes import api_routes
from ledgers.config import PLAIN_TEXT, ClientConfig

from . import pages
from .live import Live
from .rendering import static
from .sources import Sources
from .streams import Streams

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
    """Made before the server, entered inside it, so that open pages end before it does."""

    def __init__(
        self,
        metadata_uri: str,
        *,
        lost_after_seconds: float = LOST_AFTER_SECONDS,
        shows_entries: bool = False,
        config: ClientConfig | None = None,
    ) -> None:
        """Opens nothing before the first request. `config`: of the client for bookies; by default the environment's."""
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
        """For the console of a daemon. Asks bookies with the daemon's certificates, in plain text without."""
        own = ClientConfig(certificates=str(certificates) if certificates else PLAIN_TEXT)
        return cls(metadata_uri, lost_after_seconds=lost_after_seconds, config=own)

    def routes(self) -> list[web.RouteDef]:
        """All routes; each has a rule in ROUTES."""
        return [
            *api_routes(self._sight),
            *(web.get(path, pages.handler(draw, self._sources)) for path, draw in PAGES.items()),
            web.get("/events", self._streams.events),
            web.get("/static/{name}", static),
        ]

    error_page = staticmethod(pages.error_page)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Answers requests inside the block."""
        async with self._sight:
            try:
                yield
            finally:
                self._streams.end()
                await self._live.stop()
