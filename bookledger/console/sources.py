"""The data sources of a page."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bookledger.admin.api.metadata_view import MetadataView

from .live import Live

PAGES_KEPT_MAX = 32
"""Maximum number of recently viewed pages whose last state is kept, to be shown while the metadata is unavailable."""


class Drawn(NamedTuple):
    """The values from which a page was rendered, and the time of rendering, in milliseconds since 1970."""

    name: str
    values: dict[str, Any]
    at_ms: float


class LastDrawn:
    """The last state of pages, by path and query."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, Drawn] = OrderedDict()

    def keep(self, path: str, drawn: Drawn) -> None:
        self._pages[path] = drawn
        self._pages.move_to_end(path)
        if len(self._pages) > PAGES_KEPT_MAX:
            self._pages.popitem(last=False)

    def of(self, path: str) -> Drawn | None:
        return self._pages.get(path)


@dataclass(frozen=True, slots=True)
class Sources:
    """The data sources of pages. `shows_entries`: whether payloads may be shown. `last`: the last state of each page,
    for when the metadata is unavailable."""

    sight: MetadataView
    live: Live
    shows_entries: bool = False
    last: LastDrawn = field(default_factory=LastDrawn)
