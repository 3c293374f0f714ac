"""Findings about a bookie's health, one for each fact. They determine whether clients should use the bookie, and some
of them are published in its registration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from metadata.counting import facts
from metadata.counting.counting_store import CountingStore
from metadata.counting.facts import Finding, Verdict

from ..storage.bookie import Bookie
from ..upkeep.scrubbing.scrubber import Scrubber
from .bookie_registration import Registrar

LOOK_SECONDS = 5.0
"""Interval between updates of the registration."""

WHY_CHARACTERS_MAX = 500
"""Length limit of one reason in a registration, which every client reads."""

NOT_SCRUBBED = "it has not been scrubbed since it started"


class BookieFindings:
    """Computes one bookie's health findings. Belongs to the bookie's event loop.

    `why_distrusted`, called with a number of days, returns the reason why new connections to the bookie will fail in
    that many days, or "" if they will not.
    """

    def __init__(
        self,
        bookie: Bookie,
        registrar: Registrar,
        store: CountingStore,
        scrubber: Scrubber,
        why_distrusted: Callable[[int], str],
    ) -> None:
        self._bookie = bookie
        self._registrar = registrar
        self._store = store
        self._scrubber = scrubber
        self._why_distrusted = why_distrusted

    def findings(self) -> list[Finding]:
        """Returns one finding for each fact, in a fixed order."""
        failed, read_only = self._bookie.failed, self._bookie.space.why_read_only
        held = self._registrar.held
        why_unregistered = f"it is not registered: {held.why_lost}" if held.why_lost else ""
        return [
            facts.LOG.found(str(failed.result()) if failed.done() else ""),
            facts.REGISTERED.found(why_unregistered, age_seconds=held.age_seconds),
            *self._certificate(),
            self._store.finding(),
            facts.WRITABLE.found(read_only and f"read-only: {read_only}"),
            self._readable(),
        ]

    def why_not_ready(self) -> str:
        """Returns the reason why clients should not use the bookie at present, or "" if they may use it."""
        return facts.why_not_ready(self.findings())

    async def publish(self) -> None:
        """Until cancelled, publishes in the registration those problems that only the bookie itself can measure."""
        while True:
            self._registrar.set_problems(
                {
                    one.fact.name: one.why[:WHY_CHARACTERS_MAX]
                    for one in self.findings()
                    if one.fact in facts.PUBLISHED and one.verdict is Verdict.AMISS
                }
            )
            await asyncio.sleep(LOOK_SECONDS)

    def _certificate(self) -> Iterator[Finding]:
        """Yields a finding for each certificate fact; at most one of them, the most urgent, reports a problem."""
        why = ""
        for fact, days in facts.CERTIFICATE_DAYS.items():
            yield fact.found("" if why else (why := self._why_distrusted(days)))

    def _readable(self) -> Finding:
        last, ended_at = self._scrubber.last, self._scrubber.ended_at
        if last is None:
            return facts.READABLE.unknown(NOT_SCRUBBED)
        wrong = []
        if last.unread:
            wrong.append(f"segments of its log could not be read: {'; '.join(last.unread)}")
        if last.ledgers_unrepaired:
            wrong.append(
                f"it could not repair {last.ledgers_unrepaired} ledgers; run: bookledger bookie scrub NAME"
            )
        return facts.READABLE.found("; ".join(wrong), age_seconds=time.monotonic() - ended_at)
