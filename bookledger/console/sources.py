"""The data sources of a page."""

from __future__ import annotations

from dataclasses import dataclass

from bookledger.admin.api.metadata_view import MetadataView

from .live import Live


@dataclass(frozen=True, slots=True)
class Sources:
    """`shows_entries`: whether payloads may be shown."""

    sight: MetadataView
    live: Live
    shows_entries: bool = False
