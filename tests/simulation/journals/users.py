"""Who uses a journal: writers as a NameNode writes, and readers as a standby reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from ledgers.protocol.quorum import majority
from qjm_compat.batch import Batch
from qjm_compat.errors import JournalError, QuorumFailed, StaleEpoch
from qjm_compat.manager.input_stream import EditLogInputStream
from qjm_compat.manager.proposer import Proposer
from qjm_compat.manager.proposer_effects import Need
from qjm_compat.manager.segments_seen import SegmentSeen, check_no_gap, durable_edits, readable_segments
from qjm_compat.requests import GetEditLogManifest, GetJournaledEdits, NamespaceInfo, PurgeLogs, SendEdits
from tests.simulation.engine.world import Violation

from .client import Calls, Client, Driver, Script, Settle, Sleep
from .edits import frames
from .plan import Reader, Writer
from .probes import JournalProbe
from .site import Host, Site
from .synchronous import Reader as SegmentReader
from .synchronous import gathered

NAMESPACE = NamespaceInfo(12345, "CID-sim")
RETRY_SECONDS = 12.0
TAIL_TXNS_MAX = 3

Connect = Callable[[Host], Client]
Read = Callable[[int], SegmentReader]


class JournalWriter:
    """One NameNode. Each attempt is a manager of its own, with an epoch and a tag of its own."""

    def __init__(
        self, site: Site, host: Host, wants: Writer, connect: Connect, next_tag: Callable[[], int]
    ) -> None:
        self.site = site
        self.host = host
        self.wants = wants
        self.has_written = False
        self.is_retired = False
        self.driver = Driver(site, host, self._script())
        self._connect = connect
        self._next_tag = next_tag

    def _script(self) -> Script:
        for attempt in range(self.wants.attempts):
            if attempt:
                yield Sleep(RETRY_SECONDS * (0.5 + self.site.stream(self.host.name).unit()))
            if self.is_retired:
                return
            life = WriterLife(self.site, self.wants, self._connect(self.host), self._next_tag())
            self.driver.client = life.client
            try:
                yield from life.live()
                self.has_written = True
                return
            except JournalError as error:
                self.site.note("%s failed: %s", self.host.name, error)
                self._failed(error)
            finally:
                life.close()

    def _failed(self, error: JournalError) -> None:
        self.site.checks.failed(error)
        if isinstance(error, QuorumFailed) and any(isinstance(e, StaleEpoch) for e in error.errors.values()):
            self.site.reached(JournalProbe.WRITER_REFUSED)
            if "newEpoch" in str(error):
                self.site.reached(JournalProbe.FOUGHT)


class WriterLife:
    """One attempt to be the writer."""

    def __init__(self, site: Site, wants: Writer, client: Client, tag: int) -> None:
        self.site = site
        self.wants = wants
        self.client = client
        self.tag = tag
        self.config = client.config
        self.proposer = Proposer(tuple(f"a{n}" for n in range(len(client.lines))), client.config)
        self.quorum = majority(tuple(range(len(client.lines))))
        self._has_failed = False

    def close(self) -> None:
        self._has_failed = True
        self.client.close()

    def live(self) -> Generator[Any, Any, None]:
        """Recovers and writes. Raises JournalError."""
        next_txid = yield from self.recovered()
        for number, batches in enumerate(self.wants.segments):
            is_last = number == len(self.wants.segments) - 1
            leaves_open = self.wants.leaves_open and is_last
            next_txid = yield from self.segment(next_txid, batches, leaves_open=leaves_open)

    def recovered(self) -> Generator[Any, Any, int]:
        """Becomes the writer; returns where it goes on."""
        recovered = yield from self.proposer.recover_unfinalized_segments(NAMESPACE)
        assert self.proposer.epoch is not None
        if recovered is not None and recovered.in_progress:
            self.site.reached(JournalProbe.RECOVERED)
        checks = self.site.checks
        seconds_max = self.config.select_input_streams_seconds_max
        seen = yield from readable_segments(
            self.proposer.acceptors, GetEditLogManifest(0, False), seconds_max, only_durable=True
        )
        no_gaps(seen, checks.purged_below)
        end = max(seen[-1].last_txid if seen else 0, checks.purged_below - 1)
        self.site.note("epoch %s goes on behind %s", self.proposer.epoch, end)
        checks.recovered(self.proposer.epoch, end)
        return end + 1

    def segment(
        self, first_txid: int, batches: tuple[int, ...], *, leaves_open: bool
    ) -> Generator[Any, Any, int]:
        """Writes one segment; returns the next txid."""
        yield from self.proposer.start_log_segment(first_txid, None)
        next_txid = first_txid
        under_way: deque[Calls] = deque()
        for num_txns in batches:
            under_way.append(self._sent(first_txid, next_txid, num_txns))
            next_txid += num_txns
            while len(under_way) >= self.wants.depth:
                yield from self._settled(under_way.popleft())
            if self.wants.think:
                yield Sleep(self.wants.think)
        while under_way:
            yield from self._settled(under_way.popleft())
        if self.wants.purges:
            self.purge(first_txid + self.site.stream("purge").below(next_txid - first_txid))
        if not leaves_open:
            yield from self.proposer.finalize_log_segment(first_txid, next_txid - 1)
        return next_txid

    def purge(self, min_txid_to_keep: int) -> Calls:
        self.site.checks.purged(min_txid_to_keep)
        self.site.reached(JournalProbe.PURGED)
        return self.client.call(PurgeLogs(min_txid_to_keep=min_txid_to_keep))

    def _sent(self, segment: int, first_txid: int, num_txns: int) -> Calls:
        records = frames(self.tag, first_txid, num_txns)
        calls = self.client.call(
            SendEdits(segment_txid=segment, first_txid=first_txid, num_txns=num_txns, records=records)
        )

        def changed() -> None:
            if len(calls.replies) >= self.quorum.needed and not self._has_failed:
                calls.changed.remove(changed)
                self._acknowledged(segment, first_txid, records, num_txns)

        calls.changed.append(changed)
        changed()
        return calls

    def _acknowledged(self, segment: int, first_txid: int, records: bytes, num_txns: int) -> None:
        """As `LoggerSet.edits_settled`."""
        assert self.proposer.epoch is not None
        self.site.note("epoch %s has %s to %s", self.proposer.epoch, first_txid, first_txid + num_txns - 1)
        self.site.checks.acknowledged(self.proposer.epoch, segment, first_txid, records)
        for channel in self.client.channels:
            channel.set_committed(max(first_txid + num_txns - 1, channel.committed_txid or 0))

    def _settled(self, calls: Calls) -> Generator[Any, Any, None]:
        seconds_max = self.config.write_txns_seconds_max
        answers = yield Settle(calls, seconds_max)
        self.proposer.acceptors.check("journal", answers, Need.MAJORITY, seconds_max)


def no_gaps(seen: list[SegmentSeen], purged_below: int) -> None:
    """J5: finalized segments follow each other."""
    for one, other in zip(seen, seen[1:], strict=False):
        if other.first_txid != one.last_txid + 1 and other.first_txid > purged_below:
            raise Violation("J5", f"between {one.last_txid} and {other.first_txid} there is nothing")


class JournalReader:
    """A standby: looks at everything there is, or follows."""

    def __init__(self, site: Site, host: Host, wants: Reader, client: Client, read: Read) -> None:
        self.site = site
        self.host = host
        self.wants = wants
        self.client = client
        self.driver = Driver(site, host, self._script())
        self.driver.client = client
        self._read = read
        self._acceptors = Proposer(tuple(f"a{n}" for n in range(len(client.lines))), client.config).acceptors
        self._quorum = majority(tuple(range(len(client.lines))))

    def _script(self) -> Script:
        next_txid = 1
        for _ in range(self.wants.looks):
            try:
                if self.wants.tails:
                    next_txid = yield from self._follow(next_txid)
                else:
                    yield from self._look()
            except JournalError as error:
                self.site.note("%s failed: %s", self.host.name, error)
                self.site.checks.failed(error)
                next_txid = max(next_txid, self.site.checks.purged_below)
            yield Sleep(self.wants.every)

    def _look(self) -> Generator[Any, Any, None]:
        """All streams, one after the other."""
        seconds_max = self.client.config.select_input_streams_seconds_max
        request = GetEditLogManifest(0, True)
        seen = yield from readable_segments(self._acceptors, request, seconds_max, only_durable=True)
        check_no_gap(seen)
        for segment in seen:
            yield Sleep(0.5)
            readers = {n: self._read(n) for n in range(len(self.client.lines))}
            stream = EditLogInputStream(segment, readers, 0)
            for batch in gathered(stream.batches()):
                self._saw(segment.first_txid, batch)
            if segment.in_progress:
                self.site.reached(JournalProbe.SEEN_IN_PROGRESS)

    def _follow(self, next_txid: int) -> Generator[Any, Any, int]:
        seconds_max = self.client.config.select_input_streams_seconds_max
        request = GetJournaledEdits(next_txid, TAIL_TXNS_MAX)
        replies = yield from self._acceptors.ask("getJournaledEdits", request, Need.MAJORITY, seconds_max)
        found = durable_edits(replies, self._quorum)
        if found is None:
            return next_txid
        edits, count = found
        self._saw(0, Batch(next_txid, count, edits.records[: count * len(edits.records) // edits.txn_count]))
        self.site.reached(JournalProbe.TAILED)
        return next_txid + count

    def _saw(self, start_txid: int, batch: Batch) -> None:
        self.site.note("%s saw %s to %s", self.host.name, batch.first_txid, batch.last_txid)
        self.site.checks.saw(start_txid, batch.first_txid, bytes(batch.records))
