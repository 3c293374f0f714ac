"""Salvaging a ledger in ordinary code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from metadata.records.ledger_record import LedgerRecord

from .. import aio
from ..loop_thread import LoopThread, iterate
from ..recovering.salvage import Part


class Salvage:
    """What there is of a ledger at living bookies; see `ledgers.recovering.salvage.Salvage`."""

    def __init__(self, thread: LoopThread, twin: aio.Salvage) -> None:
        self._thread = thread
        self._twin = twin

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

    def parts(self) -> Iterator[Part]:
        """All that there is, in order, once: entries, and the gaps between them."""
        return iterate(self._thread, self._twin.parts())
