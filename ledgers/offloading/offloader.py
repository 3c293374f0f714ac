"""The offloader: one elected program copies ledgers to an object store according to a policy, in rounds."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from metadata.rate_limit import RateLimit
from metadata.records.cluster import list_bookies
from metadata.records.cold import offloader_state
from metadata.records.cold.cold_copy import ColdCopy
from metadata.records.cold.offloader_state import LEDGERS_NAMED_MAX, OffloaderState
from metadata.records.ledger_record import LedgerRecord
from metadata.records.logs.log_store import LogStore

from ..cluster import Cluster
from ..cold.errors import NoSuchObject, ObjectStoreFailed
from ..elections.errors import LeadershipLost
from ..elections.term import Term
from ..errors import LedgerError
from ..ledger_access import found_of, keys_of
from ..record_change import metadata_errors
from ..tasks import end_tasks
from .offload import offload, remove_unneeded, size_of, take_off_bookies
from .policy import OffloadPolicy, logs_by_maker, logs_of, relieving

log = logging.getLogger(__name__)

ELECTION = "bookledger.offloader"

STORE_FAILURES_MAX = 3
"""A round stops copying after this many failures of the object store, which is then probably full or unreachable, or
denies access."""

COPIES_AT_ONCE = 2
"""Number of ledgers copied at the same time: one can be uploaded while another is read back."""

OBJECTS_PER_ROUND = 1000
"""Number of ledgers whose objects one round checks."""


@dataclass(slots=True)
class _ListedLedgers:
    """The result of one listing of all ledgers. `stored`: the ledgers with a complete copy, each with its copy."""

    due: list[LedgerRecord] = field(default_factory=list)
    to_drop: list[int] = field(default_factory=list)
    stored: list[tuple[int, ColdCopy]] = field(default_factory=list)
    on_bookies: int = 0
    with_password: int = 0


class Offloader:
    """Performs the rounds of one term. Belongs to one event loop."""

    def __init__(
        self, cluster: Cluster, url: str, policy: OffloadPolicy, bytes_per_second: float = math.inf
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._pace = None if math.isinf(bytes_per_second) else RateLimit(bytes_per_second)
        self._looked_at = 0
        self._store_failures = 0
        self.state = OffloaderState("", url, 0)
        self.counts: Counter[str] = Counter()
        """Ledgers `copied`, `dropped` and `failed`, and `bytes` copied, since this program was started."""

    async def round(self, term: Term) -> OffloaderState:
        """Copies ledgers that are due, has bookies drop ledgers that they have kept long enough, deletes unneeded
        objects, checks that some of the other objects exist, and publishes its state. Raises LeadershipLost,
        MetadataUnavailable."""
        found, failed = await self._look(), dict[int, str]()
        await self._publish_state(term, found, self.state.failed, self.state.missing)
        await self._copy_all(found.due, term, failed)
        for ledger_id in found.to_drop:
            term.check()
            if await self._done(ledger_id, take_off_bookies(self._cluster, ledger_id), failed):
                self.counts["dropped"] += 1
        try:
            await remove_unneeded(self._cluster)
        except LedgerError as error:
            log.warning("unneeded objects could not be deleted yet: %s", error)
        missing = await self._missing(found.stored, term)
        if found.due or found.to_drop:
            found = await self._look()
        return await self._publish_state(term, found, failed, missing)

    def stand_down(self) -> None:
        """Clears the published counts when the term ends, because the next leader reports them."""
        self.state = OffloaderState("", self.state.url, 0)

    async def _look(self) -> _ListedLedgers:
        cluster, found, now_ms = self._cluster, _ListedLedgers(), time.time_ns() // 1_000_000
        leaving, young = list[LedgerRecord](), list[LedgerRecord]()
        with metadata_errors():
            by_maker = logs_by_maker([one.record async for one in LogStore(cluster.store).by_name()])
            over = self._policy.bytes_over(await list_bookies(cluster.store))
            async for one in cluster.ledgers.list():
                record = one.record
                logs = logs_of(record, by_maker)
                if record.cold is not None and record.cold.is_stored:
                    found.stored.append((record.ledger_id, record.cold))
                    found.on_bookies += not record.has_no_ensembles
                    leaving += [record] if over else []
                if self._policy.is_to_be_dropped(record, now_ms):
                    found.to_drop.append(record.ledger_id)
                elif self._policy.may_copy(record, logs):
                    if record.verifier:
                        found.with_password += 1
                    elif self._policy.is_old(record, logs, now_ms):
                        found.due.append(record)
                    elif over:
                        young.append(record)
        found.due += relieving(over, leaving + found.due, young)
        found.due.sort(key=lambda record: record.closed_ms)
        return found

    async def _copy_all(self, due: Iterable[LedgerRecord], term: Term, failed: dict[int, str]) -> None:
        """Copies the ledgers, a few at a time."""
        waiting, self._store_failures = iter(due), 0

        async def copy_in_turn() -> None:
            for record in waiting:
                if self._store_failures >= STORE_FAILURES_MAX:
                    return
                term.check()
                await self._done(record.ledger_id, self._copy(record.ledger_id), failed)

        copying = [asyncio.create_task(copy_in_turn()) for _ in range(COPIES_AT_ONCE)]
        try:
            await asyncio.gather(*copying)
        finally:
            await end_tasks(copying)

    async def _copy(self, ledger_id: int) -> None:
        found = await found_of(self._cluster, ledger_id)
        keys = await keys_of(self._cluster, found, b"")
        await offload(self._cluster, found, keys, self.state.url, pace=self._pace)
        self.counts["copied"] += 1
        self.counts["bytes"] += found.record.length_bytes or 0

    async def _done(self, ledger_id: int, work: Awaitable[object], failed: dict[int, str]) -> bool:
        """Awaits the work on one ledger, and returns whether it succeeded. A failure affects no other ledger."""
        try:
            with metadata_errors():
                await work
        except LedgerError as error:
            self.counts["failed"] += 1
            self._store_failures += isinstance(error, ObjectStoreFailed)
            if len(failed) < LEDGERS_NAMED_MAX:
                failed[ledger_id] = str(error)
            log.warning("%s", error, extra={"ledger": ledger_id})
            return False
        return True

    async def _missing(self, stored: Sequence[tuple[int, ColdCopy]], term: Term) -> dict[int, str]:
        """Returns the ledgers with missing objects, and the reasons. Each round checks only the next part of the
        ledgers; the results for the other ledgers are from earlier rounds."""
        missing = dict(self.state.missing)
        start = self._looked_at if self._looked_at < len(stored) else 0
        self._looked_at = start + OBJECTS_PER_ROUND
        for ledger_id, copy in stored[start : self._looked_at]:
            term.check()
            missing.pop(ledger_id, None)
            try:
                size = await size_of(self._cluster, copy)
            except NoSuchObject as error:
                missing[ledger_id] = str(error)
            except LedgerError as error:  # the store does not answer: whether the object exists is unknown
                log.warning("%s", error, extra={"ledger": ledger_id})
            else:
                if size != copy.size_bytes:
                    missing[ledger_id] = f"{copy.url}/{copy.key}: {size} bytes of {copy.size_bytes}"
        there = {ledger_id for ledger_id, _ in stored}
        return {ledger_id: why for ledger_id, why in missing.items() if ledger_id in there}

    async def _publish_state(
        self, term: Term, found: _ListedLedgers, failed: Mapping[int, str], missing: Mapping[int, str]
    ) -> OffloaderState:
        self.state = replace(
            self.state,
            offloader=term.leader,
            at_ms=time.time_ns() // 1_000_000,
            stored=len(found.stored),
            stored_bytes=sum(copy.size_bytes for _, copy in found.stored),
            on_bookies=found.on_bookies,
            waiting=len(found.due),
            waiting_bytes=sum(one.length_bytes or 0 for one in found.due),
            with_password=found.with_password,
            next_ledgers=tuple(one.ledger_id for one in found.due[:LEDGERS_NAMED_MAX]),
            failed=failed,
            missing=dict(list(missing.items())[:LEDGERS_NAMED_MAX]),
        )
        with metadata_errors():
            await offloader_state.write(self._cluster.store, self.state)
        return self.state


async def lead(
    offloader: Offloader, term: Term, round_seconds: float, on_round: Callable[[OffloaderState], object]
) -> None:
    """Runs rounds until the term is over, and then raises LeadershipLost. Waits for the metadata store during an
    outage."""
    try:
        while True:
            try:
                on_round(await offloader.round(term))
            except LeadershipLost:
                raise
            except LedgerError as error:
                log.warning("the round failed and will be repeated: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(term.lost.wait(), round_seconds)
            term.check()
    finally:
        offloader.stand_down()
