"""Errors of elections.

LedgerError
└── LeadershipLost           the term is over: another candidate may lead
"""

from __future__ import annotations

from metadata.picklable_errors import TakenOver

from ..errors import LedgerError


class LeadershipLost(TakenOver, LedgerError):
    """The term is over by the leader's own clock, and another candidate may already be leading. Stop, or stand for
    election again."""

    def __init__(self, election: str, token: int, why: str) -> None:
        super().__init__(f"term {token} of election {election!r} is over: {why}")
        self.election, self.token, self.why = election, token, why
