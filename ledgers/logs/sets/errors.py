"""Errors of sets of logs.

LedgerError
└── NoSuchLogSet             there is no set of this name
"""

from __future__ import annotations

from metadata.picklable_errors import NotFound

from ...errors import LedgerError


class NoSuchLogSet(NotFound, LedgerError):
    """There is no set of logs with this name. To create it, specify a number of logs."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no set of logs {name!r}: specify a number of logs to create it")
        self.name = name
