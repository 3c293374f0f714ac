"""Elections: writers that write only as leaders, and whether one leads at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledgers.elections.election import Election
from ledgers.elections.term import Term as LeaderTerm
from ledgers.errors import LedgerError
from tests.simulation.engine.loop import OWNER

from .actors import LogWriterUser
from .plan import Term
from .probes import LogProbe

if TYPE_CHECKING:
    from .site import LogSite

ELECTION = "election"
LEASE_SECONDS = 3.0
WAIT_SECONDS = 8.0
"""How long a candidate waits for its turn; a leader's term is longer at times."""
PREPARES_SECONDS = 6.0
"""How long a leader takes at most before it takes the log over."""


class LeaderUser(LogWriterUser):
    """Stands for election before each of its terms. It does not look whether it leads still: a fence has to say so."""

    async def _term(self, term: Term) -> None:
        OWNER.set(self.client.name)
        log = await self.opened()
        if log is None:
            return
        election = Election(self.client, ELECTION)
        try:
            async with election.lead(self.name, lease_seconds=LEASE_SECONDS, timeout=WAIT_SECONDS) as led:
                with self.site.led_truth.leading(self.name, led):
                    await asyncio.sleep(PREPARES_SECONDS * self.client.chance.unit() ** 2)
                    await self._write_as(log, term, led)
                if led.lost.is_set():
                    self.site.world.reached(LogProbe.DEPOSED)
        except TimeoutError:
            self.note("has waited long enough")
        except LedgerError as error:
            self.expected("election", error)


class LedTruth:
    """Checks as it happens: rule L7."""

    def __init__(self, site: LogSite) -> None:
        self._site = site
        self._begun = self._led = 0
        self._leading: dict[str, LeaderTerm] = {}

    def begun(self, token: int) -> None:
        """The record of a term was written."""
        if token <= self._begun:
            raise self._broken(f"a term has token {token}, and one before it {self._begun}")
        self._begun = token

    @contextmanager
    def leading(self, who: str, term: LeaderTerm) -> Iterator[None]:
        """A program was told that it leads."""
        self._site.world.note("%s leads, token %d", who, term.token)
        others = [f"{other}, token {one.token}" for other, one in self._leading.items() if _leads(one)]
        if others:
            raise self._broken(f"{who} leads, token {term.token}, and so, by its own clock, does {others[0]}")
        if term.token <= self._led:
            raise self._broken(f"{who} leads, token {term.token}, after one with {self._led}")
        self._led, self._leading[who] = term.token, term
        try:
            yield
        finally:
            del self._leading[who]

    def _broken(self, what: str) -> AssertionError:
        return self._site.truth._broken("L7", what)


def _leads(term: LeaderTerm) -> bool:
    """By its own clock; unlike `is_lost` this changes nothing."""
    return not term.lost.is_set() and not term._place._held.why_lost
