"""Blocking salvage of a ledger."""

from __future__ import annotations

from collections.abc import Mapping

from metadata.records.ledger_record import LedgerRecord

from .. import aio
from .twin_calls import Face, iterating


class Salvage(Face[aio.Salvage]):
    """The available entries of a ledger at live bookies.

    Created by `LedgerClient.salvage_ledger`; may be used from several threads. Each entry is verified by its digest.
    Entries past `proven_through`, the last entry that is proven to be confirmed, are included, and may not be part of
    the ledger. Entries that no bookie has, or that cannot be read, are reported as gaps. Nothing is fenced or changed.
    `silent`: bookies of the ledger, or named by the caller, that could not be asked, or no longer from some entry on,
    with the reason.
    """

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as it was found."""
        return self._twin.record

    @property
    def proven_through(self) -> int:
        """The last entry that is proven to be confirmed; entries behind it may not be part of the ledger."""
        return self._twin.proven_through

    @property
    def silent(self) -> Mapping[str, str]:
        """Bookies that could not be asked at all or from some entry on, and the reasons."""
        return self._twin.silent

    @property
    def unsure(self) -> list[str]:
        """Once all parts were yielded: bookies that answered and do not know whether there were further entries."""
        return self._twin.unsure

    parts = iterating(aio.Salvage.parts)
