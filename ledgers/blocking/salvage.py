"""Salvaging a ledger in ordinary code."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from metadata.records.ledger_record import LedgerRecord

from .. import aio
from ..loop_thread import LoopThread, iterate
from ..recovering.salvage import Part


class Salvage:
    """What there is of a ledger at living bookies: one salvage of one ledger. Made by `LedgerClient.salvage_ledger`.

    Each entry is verified by its digest. What lies past `proven_through` is given, too, and may not be part of the
    ledger; what nobody has, or nobody can read, is told as gaps. Nothing is fenced or changed.
    """

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

    def parts(self) -> Generator[Part, None, None]:
        """All that there is, in order, once: entries, and the gaps between them."""
        return iterate(self._thread, self._twin.parts())
