"""Errors of sets of logs.

LedgerError
└── NoSuchLogSet             there is no set of this name
"""

from __future__ import annotations

from metadata.picklable_errors import NotFound

from ...errors import LedgerError


class NoSuchLogSet(NotFound, LedgerError):
    """There is no set of logs of this name: with a number of logs it is created."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no set of logs {name!r}: say how many logs it is to have, and it is created"
        )
        self.name = name
