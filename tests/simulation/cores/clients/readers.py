"""The readers of a simulated cluster: shells over the real page reads, as ledgers/reading/read_handle.py is.

A plain reader reads what is confirmed once. A tail reader follows the ledger to its close: it believes the
last-add-confirmed that bookies tell, and hears of changes of the record late, out of a watch, or by looking again.
"""

from __future__ import annotations

from collections.abc import Callable

from bookie.wire import NO_ENTRY, Columns, LacReply, LacRequest, Status
from ledgers.protocol.page_read import PageDone, PageFailed, PageRead
from ledgers.protocol.quorum import Outcome
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import BookieRef, LedgerRecord, LedgerState
from tests.simulation.cores.probes import Probe
from tests.simulation.cores.site.metadata import Committed, Read

from .page_run import PageRun
from .process import Client, Site

POLL_SECONDS = 25.0
TRIES_MAX = 8
"""How often a reader tries what fails before it gives up; a tail reader goes on for longer."""

TAIL_TRIES_MAX = 40


class Reader(Client):
    """What both kinds know: the record as last seen, the last-add-confirmed, the next entry to read."""

    tries_max = TRIES_MAX

    def __init__(self, site: Site, name: str, first_entry: int, rotation: int) -> None:
        super().__init__(site, name)
        self.next_entry = first_entry
        self.has_seen_close = False
        self._rotation = rotation
        self._tries = self.tries_max
        self._record: LedgerRecord | None = None
        self._seen_version = 0
        self._lac = NO_ENTRY
        self._ended = False

    @property
    def is_done(self) -> bool:
        return self._ended

    @property
    def record(self) -> LedgerRecord:
        assert self._record is not None
        return self._record

    def begin(self) -> None:
        self.world.note("%s begins", self.name)
        self._look()

    def _look(self) -> None:
        self.site.metadata.read(self.name, self.hears(self._looked))

    def _looked(self, read: Read | None) -> None:
        if read is None:
            self._try_again()
        else:
            self._take(read.found)
            self._step()

    def _take(self, found: Committed | None) -> None:
        """What a reader knows only grows."""
        if found is None:
            self._end("there is no such ledger")
        elif found.version > self._seen_version:
            self._record, self._seen_version = found.record, found.version
            proven = found.record.confirmed_through
            self._lac = proven if found.record.is_closed else max(self._lac, proven)

    def _step(self) -> None:
        """Goes on from what is known now."""
        raise NotImplementedError

    def _try_again(self) -> None:
        self._tries -= 1
        if self._tries > 0:
            self.later(10.0, self._look)
        else:
            self._end("it gave up")

    def _end(self, why: str) -> None:
        self.world.note("%s ends: %s", self.name, why)
        self._ended = True

    # --- the last-add-confirmed -----------------------------------------------------------------

    def _ask_lac(self, then: Callable[[bool], None]) -> None:
        """Asks every bookie of the last ensemble, without fencing; `then` hears whether enough answered."""
        ensemble = self.record.fragments[-1].ensemble
        coverage = Striping(self.record.shape).coverage
        answered: set[int] = set()
        heard: list[int] = []

        def hear(position: int, reply: LacReply | None) -> None:
            heard.append(position)
            if self._note_lac(reply):
                answered.add(position)
            if len(heard) == len(ensemble) and not self._ended:
                then(coverage.outcome(answered) is Outcome.WON)

        for position, bookie in enumerate(ensemble):
            request = LacRequest(bookie.incarnation, self.record.ledger_id)
            self._ask_one_lac(bookie, request, lambda reply, n=position: hear(n, reply))  # type: ignore[misc]

    def _ask_one_lac(
        self, bookie: BookieRef, request: LacRequest, then: Callable[[LacReply | None], None]
    ) -> None:
        self.call("lac", bookie, lambda server, answer: server.last_add_confirmed(request, answer), then, 1)

    def _note_lac(self, reply: LacReply | None) -> bool:
        if reply is None or reply.status not in (Status.OK, Status.NO_SUCH_LEDGER):
            return False
        told = reply.last_add_confirmed
        if told is not None and not self.site.digester.is_valid_lac(told):
            return False
        if told is not None and not self.record.is_closed:  # a closed ledger ends where its record says (F5)
            self._lac = max(self._lac, told.last_entry)
        return True

    # --- pages ----------------------------------------------------------------------------------

    def _read_page(self, again: bool = True) -> None:
        """One page from the next entry on, inside one fragment of the record as it is known."""
        record, first = self.record, self.next_entry
        fragment = record.fragment_of(first)
        following = [f.first_entry - 1 for f in record.fragments if f.first_entry > first]
        page = PageRead(
            record.ledger_id,
            Striping(record.shape),
            fragment,
            self.site.digester,
            first,
            min([self._lac, *following]),
            rotation=self._rotation,
        )
        PageRun(self, page, fragment, record.ledger_id, lambda done: self._page_read(done, again)).start()

    def _page_read(self, done: PageDone | PageFailed, again: bool) -> None:
        match done:
            case PageDone(columns):
                self._tries = self.tries_max
                if not again:
                    self.world.reached(Probe.READ_MET_OLD_RECORD)
                self._give(columns)
                self._step()
            case PageFailed() if again:
                self._look_once_more()
            case _:
                self._try_again()

    def _look_once_more(self) -> None:
        """No replica has the entry: the record may be out of date."""
        before = self.record.fragments

        def looked(read: Read | None) -> None:
            if read is not None:
                self._take(read.found)
            if self._ended:
                return
            if read is None or self.record.fragments == before:
                self._try_again()
            elif self.next_entry <= self._lac:
                self._read_page(again=False)
            else:
                self._step()

        self.site.metadata.read(self.name, self.hears(looked))

    def _give(self, columns: Columns) -> None:
        """To the application, in order and without a gap."""
        for entry_id, payload, _ in columns.rows():
            assert entry_id == self.next_entry
            self.next_entry = entry_id + 1
            self.site.checker.returned(self.name, entry_id, payload)
        self.world.note("%s has read through %s", self.name, self.next_entry - 1)


class PlainReader(Reader):
    """Opens the ledger without recovery and reads what is confirmed, once."""

    def _step(self) -> None:
        if self._ended:
            return
        if self.next_entry <= self._lac:
            self._read_page()
        elif self.record.is_closed:
            self.has_seen_close = True
            self._end("it has read all")
        elif self.next_entry == 0:
            self._ask_lac(self._asked)
        else:
            self._end("it has read what is confirmed")

    def _asked(self, _: bool) -> None:
        if self._lac >= self.next_entry:
            self._step()
        else:
            self._end("nothing is confirmed")


class TailReader(Reader):
    """Follows the ledger to its close."""

    tries_max = TAIL_TRIES_MAX

    def begin(self) -> None:
        self.site.metadata.watch(self.name, self.hears(self._hear))
        self._is_waiting = False
        super().begin()

    def _hear(self, found: Committed | None) -> None:
        """The record changed. A step that waits goes on at once."""
        if self._ended:
            return
        if self._record is not None and found is not None and found.record.fragments != self.record.fragments:
            self.world.reached(Probe.TAIL_ACROSS_CHANGE)
        self._take(found)
        if self._is_waiting:
            self._is_waiting = False
            self._step()

    def _step(self) -> None:
        if self._ended:
            return
        if self.next_entry <= self._lac:
            self._read_page()
        elif self.record.is_closed:
            self.has_seen_close = True
            self.site.checker.ended(self.name, self.record)
            self._end("the ledger is closed")
        else:
            self._ask_lac(self._asked)

    def _asked(self, _: bool) -> None:
        """All bookies have answered or not: read on, or wait for news."""
        if self.next_entry <= self._lac or self.record.is_closed:
            return self._step()
        self._is_waiting = True
        return self.later(POLL_SECONDS, self._wait_no_longer)

    def _wait_no_longer(self) -> None:
        if self._is_waiting and not self._ended:
            self._is_waiting = False
            self._look()

    def _give(self, columns: Columns) -> None:
        if self.site.checker.committed.state is not LedgerState.CLOSED:
            self.world.reached(Probe.TAIL_BEFORE_CLOSE)
        super()._give(columns)
