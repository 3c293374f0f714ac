"""Error raised when calls to the rest of the cluster fail during a repair; shared by the bookie and the client through
which it makes these calls."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import BookieError


class PeersFailed(BookieError):
    """The other bookies, or the metadata, could not help with a ledger. `str()` says what to do next.

    Nothing was lost or decided: the caller may repeat the call, and must do so if the ledger still needs to be
    repaired. `entry_id` is the first entry that no replica could provide, or None if no entry failed; `answers`
    contains every other replica's answer for that entry.
    """

    def __init__(
        self,
        ledger_id: int,
        what: str,
        advice: str,
        *,
        entry_id: int | None = None,
        answers: Mapping[str, str] | None = None,
    ) -> None:
        listed = "; ".join(f"{name}: {answer}" for name, answer in sorted((answers or {}).items()))
        super().__init__(f"{what}{f' ({listed})' if listed else ''}; {advice}")
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.answers = dict(answers or {})
