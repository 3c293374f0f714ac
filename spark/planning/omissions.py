"""Counts and describes the ledgers that are omitted if no option selects ledgers."""

from __future__ import annotations

from ledgers import LedgerRecord

NAMED_MAX = 20
"""The number of open ledgers listed by id; further ones are only counted."""


class Omissions:
    """The omitted ledgers: open ones, and those of logs."""

    def __init__(self) -> None:
        self._of_logs = 0
        self._open: list[int] = []
        self._open_others = 0

    def __bool__(self) -> bool:
        return bool(self._of_logs or self._open)

    def add(self, record: LedgerRecord) -> None:
        if record.is_of_log:
            self._of_logs += 1
        elif len(self._open) < NAMED_MAX:
            self._open.append(record.ledger_id)
        else:
            self._open_others += 1

    def __str__(self) -> str:
        told = []
        if self._open:
            more = f" and {self._open_others} more" if self._open_others else ""
            told.append(f"ledgers that are open: {', '.join(map(str, self._open))}{more}")
        if self._of_logs:
            told.append(f'{self._of_logs} ledgers of logs, which format("log") reads')
        return "omitted are " + ", and ".join(told)
