"""Server-sent events: tells open pages when to refresh."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from aiohttp import web

from bookledger.admin.http.problems import Problem

from .live import LOOK_SECONDS, Live
from .rendering import HEADERS

STREAMS_MAX = 16
"""Pages that are told when to look again, each a connection; more look by themselves, more seldom."""


class Streams:
    """All open streams. Each sends one short line every LOOK_SECONDS."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._open = 0
        self._ending = asyncio.Event()

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Streams events until the browser leaves, or the daemon ends."""
        if self._open >= STREAMS_MAX:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")
        self._open += 1
        try:
            return await self._told(request)
        finally:
            self._open -= 1

    def end(self) -> None:
        """Ends all streams."""
        self._ending.set()

    async def _told(self, request: web.Request) -> web.StreamResponse:
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
