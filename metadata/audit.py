"""Audit log: records each audited action or refusal, and who caused it, as one JSON object per line on the logger
"bookledger.audit".

{"at": "2026-11-23T22:50:01.123Z", "what": "fence", "outcome": "done", "who": "client:app", "from": "10.0.0.7", …}

The log is off until that logger gets a handler; `bookledger --audit-log FILE` adds one. A line contains numbers, names
and reasons, but never a payload, a password or a key. Refusals are rate-limited, because strangers can cause any number
of them: those beyond REFUSALS_A_SECOND_MAX are only counted, and the next line contains the count.
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
    """Audited actions."""

    CREATE = "create"
    FENCE = "fence"
    RECOVER = "recover"
    ACCEPT_LOSS = "accept loss"
    CLOSE = "close"
    DELETE = "delete"
    TRUNCATE = "truncate"
    RENAME = "rename"
    FORK = "fork"
    RESTORE = "restore"
    OFFLOAD = "offload"
    RECALL = "recall"
    LEGAL_HOLD = "legal hold"
    RETENTION = "retention"
    SHOW_ENTRIES = "show entries"
    EPOCH = "epoch"
    MAINTENANCE = "maintenance"
    ORDER = "order"
    REFUSED = "refused access"


class _RefusalRateLimit:
    """Limits the rate at which refusals are logged, and counts those that are not logged."""

    def __init__(self) -> None:
        self._second = 0
        self._count = 0
        self.left_out = 0

    def lets_through(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count > REFUSALS_A_SECOND_MAX:
            self.left_out += 1
            return False
        return True


_refusals = _RefusalRateLimit()


def record_audit(
    act: Act, outcome: str = DONE, *, who: str = "", where: str = "", **about: int | str | None
) -> None:
    """Logs an action and its outcome. `about`: ledger ids, names, numbers; None values are left out."""
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
