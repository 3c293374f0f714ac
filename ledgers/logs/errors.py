"""Errors of single logs.

LedgerError
└── LogOfSet                 the log is changed with its set only
"""

from __future__ import annotations

from ..errors import LedgerError


class LogOfSet(LedgerError):
    """The log is one of a set, which keeps them all alike. Nothing was changed: change the set."""

    def __init__(self, name: str, log_set: str, instead: str) -> None:
        super().__init__(f"log {name!r} is one of set {log_set!r}: {instead}")
        self.name, self.log_set = name, log_set
