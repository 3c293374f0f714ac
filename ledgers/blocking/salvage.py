"""Salvaging a ledger in ordinary code."""

from __future__ import annotations

from collections.abc import Mapping

from metadata.records.ledger_record import LedgerRecord

from .. import aio
from .twin_calls import Face, iterating


class Salvage(Face[aio.Salvage]):
    """What there is of a ledger at living bookies.

    Made by `LedgerClient.salvage_ledger`; may be used from several threads. Each entry is verified by its digest. What
    lies past `proven_through`, the last entry that is proven to be confirmed, is given, too, and may not be part of the
    ledger; what nobody has, or nobody can read, is told as gaps. Nothing is fenced or changed. `silent`: bookies that
    the ledger is placed at, or that were named, and could not be asked, or from some entry on no more, with why.
    """

    @property
    def record(self) -> LedgerRecord:
        """The ledger's metadata as it was found."""
        return self._twin.record

    @property
    def proven_through(self) -> int:
        """The last entry that is proven to be confirmed; what is behind it may not be part of the ledger."""
        return self._twin.proven_through

    @property
    def silent(self) -> Mapping[str, str]:
        """Bookies that could not be asked, or from some entry on no more, and why."""
        return self._twin.silent

    @property
    def unsure(self) -> list[str]:
        """Once all parts are given: bookies that answered and cannot say whether there was more."""
        return self._twin.unsure

    parts = iterating(aio.Salvage.parts)
