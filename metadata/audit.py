"""What somebody may have to answer for later: one line of JSON each, for the logger "bookledger.audit".

    {"at": "2026-11-23T22:50:01.123Z", "what": "fence", "outcome": "done", "who": "client:app", "from": "10.0.0.7", …}

A process that wants them kept gives that logger a handler; `bookledger --audit-log FILE` does. Numbers, names and
reasons stand in a line, and never a payload, a password or a key. Strangers can have themselves refused as often as
they like: past REFUSALS_A_SECOND_MAX only their number is told, with the next line.
"""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from enum import StrEnum

AUDIT = logging.getLogger("bookledger.audit")

DONE = "done"

REFUSALS_A_SECOND_MAX = 20
REASON_CHARACTERS_MAX = 500


class Act(StrEnum):
    """What is told."""

    CREATE = "create"
    FENCE = "fence"
    RECOVER = "recover"
    CLOSE = "close"
    DELETE = "delete"
    EPOCH = "epoch"
    MAINTENANCE = "maintenance"
    ORDER = "order"
    REFUSED = "refused access"


class _Flood:
    """Counts what is left out of a second in which too much is refused."""

    def __init__(self) -> None:
        self._second = 0
        self._told = 0
        self.left_out = 0

    def lets_through(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._told = second, 0
        self._told += 1
        if self._told > REFUSALS_A_SECOND_MAX:
            self.left_out += 1
            return False
        return True


_refusals = _Flood()


def tell(act: Act, outcome: str = DONE, *, who: str = "", where: str = "", **about: int | str | None) -> None:
    """Tells of an act, and how it ended. `about`: ledger ids, names, numbers; None is left out."""
    if not AUDIT.isEnabledFor(logging.INFO):
        return
    if act is Act.REFUSED and not _refusals.lets_through():
        return
    line: dict[str, int | str | None] = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "what": act.value,
        "outcome": outcome[:REASON_CHARACTERS_MAX],
        "who": who,
        "from": where,
        **about,
    }
    if _refusals.left_out:
        line["refusals_left_out"], _refusals.left_out = _refusals.left_out, 0
    AUDIT.info(json.dumps({name: value for name, value in line.items() if value not in ("", None)}))
