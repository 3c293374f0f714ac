"""The content that a daemon serves over HTTP. Imports no HTTP code, because daemons import this module even without
HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from metadata.counting.facts import Finding

if TYPE_CHECKING:
    from aiohttp import web

    ErrorPage = Callable[[HTTPStatus, str, str], web.Response]
    """Draws a page for a status, with this title, and why."""


@dataclass(slots=True)
class HttpContent:
    """The content of a daemon's HTTP port. `findings`: about the daemon's own health. `pages`: further pages.
    `error_page`: renders errors for browsers."""

    registry: CollectorRegistry
    findings: Callable[[], Sequence[Finding]]
    pages: Sequence[web.RouteDef] = ()
    error_page: ErrorPage | None = None
