"""One page read by a simulated client: the shell over the real page read, as ledgers/reading/range_read.py is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bookie.wire import ReadReply, ReadRequest
from ledgers.protocol.page_read import PageDone, PageEffect, PageFailed, PageRead, ReadReplica
from metadata.records.ledger_record import Fragment
from tests.simulation.cores.probes import Probe

from .process import Client

PAGE_BYTES = 1024

OVERDUE_SECONDS = 6.0
"""How long a page may take before other replicas are asked too."""


class PageRun:
    """Performs the effects of one page read."""

    def __init__(
        self,
        reader: Client,
        page: PageRead,
        fragment: Fragment,
        ledger_id: int,
        then: Callable[[PageDone | PageFailed], None],
    ) -> None:
        self._reader = reader
        self._page = page
        self._fragment = fragment
        self._ledger_id = ledger_id
        self._then = then
        self._asked = 0
        self._is_over = False

    def start(self) -> None:
        self._perform(self._page.start())
        self._reader.later(OVERDUE_SECONDS, self._overdue)

    def _overdue(self) -> None:
        effects = [] if self._is_over else self._page.overdue()
        if effects:
            self._reader.world.reached(Probe.READ_OVERDUE)
        self._perform(effects)

    def _perform(self, effects: Sequence[PageEffect]) -> None:
        for effect in effects:
            match effect:
                case ReadReplica():
                    self._ask(effect)
                case PageDone() | PageFailed():
                    assert not self._is_over
                    self._is_over = True
                    if isinstance(effect, PageDone) and self._page.failures:
                        self._reader.world.reached(Probe.SECOND_REPLICA)
                    self._then(effect)

    def _ask(self, ask: ReadReplica) -> None:
        self._asked += 1
        size = len(self._fragment.ensemble)
        self._reader.site.checker.bounded(f"{self._reader.name}, bookies asked", self._asked, size)
        bookie = self._fragment.ensemble[ask.position]
        request = ReadRequest(
            bookie.incarnation, self._ledger_id, ask.first_entry, ask.last_entry, PAGE_BYTES
        )

        def answered(reply: ReadReply | None) -> None:
            if reply is None:
                self._perform(self._page.failed(ask.position, "silent"))
            else:
                self._perform(self._page.answered(ask.position, reply))

        self._reader.call(
            "read", bookie, lambda server, answer: server.read(request, answer), answered, tries=1
        )
