"""A cluster makes missing copies by itself: real bookies, killed, hung, drained, while a client goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ledgers import ClientConfig
from ledgers.aio import LedgerClient, WriteHandle
from metadata import keys, opened_store
from metadata.healing import absent_bookies, lease_lock, operator_requests
from metadata.healing.marks import Mark, Marks
from metadata.healing.operator_requests import Order, OrderKind
from metadata.records.ledger_record import LedgerRecord
from metadata.store import MetadataStore
from tests.support import stepped_clock
from tests.support.etcd import EtcdServer
from tests.support.processes import ProcessCluster, on_processes
from tests.support.stepped_clock import SteppedClock
from tests.support.writing import copies_of_every_entry, payload_of

SIZE = 300
ENTRIES = 500
IMPATIENT = ClientConfig(append_seconds_max=1, failed_bookie_seconds=1, retry_replacement_seconds=0.2)
HEALED_SECONDS_MAX = 50.0


@asynccontextmanager
async def on_healing_bookies(
    tmp_path: Path,
    count: int,
    *,
    lost_after: float = 1,
    uri: str = "",
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[ProcessCluster, LedgerClient, MetadataStore]]:
    more = {"lease_seconds": 2, "options": (f"--lost-after={lost_after}",), "environment": environment}
    async with (
        on_processes(tmp_path, count, IMPATIENT, uri, **more) as (cluster, client),
        opened_store(cluster.uri) as store,
    ):
        yield cluster, client, store


async def filled(writer: WriteHandle, entries: int = ENTRIES) -> None:
    first = writer.last_add_confirmed + 1
    futures = [await writer.append_async(payload_of(n, SIZE)) for n in range(first, first + entries)]
    await asyncio.gather(*futures)


async def new_ledger(client: LedgerClient) -> WriteHandle:
    writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    await filled(writer)
    return writer


async def healed(
    client: LedgerClient, ledger_id: int, is_right: Callable[[LedgerRecord], bool]
) -> LedgerRecord:
    """The record once it is right."""
    async with asyncio.timeout(HEALED_SECONDS_MAX):
        while not is_right(record := await client.describe_ledger(ledger_id)):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    return record


async def unmarked(store: MetadataStore, ledger_id: int) -> None:
    async with asyncio.timeout(HEALED_SECONDS_MAX):
        while await Marks(store).read(ledger_id) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def is_whole(client: LedgerClient, record: LedgerRecord, last_entry: int) -> None:
    copies = await copies_of_every_entry(client, record, last_entry, lambda n: payload_of(n, SIZE))
    assert set(copies.values()) == {3} and len(copies) == last_entry + 1


def names(record: LedgerRecord) -> set[str]:
    return {bookie.bookie_id for fragment in record.fragments for bookie in fragment.ensemble}


async def absence(store: MetadataStore, *, longer_than_ms: int = -1) -> int:
    """How long the one absent bookie has been so, once that is longer."""
    async with asyncio.timeout(HEALED_SECONDS_MAX):
        while (ms := await _absent_ms(store)) <= longer_than_ms:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return ms


async def _absent_ms(store: MetadataStore) -> int:
    return max((one.absent_ms for one in await absent_bookies.list_absences(store)), default=-1)


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    return SteppedClock(stepped_clock.compiled(tmp_path), tmp_path / "clock")


@pytest.fixture(params=["a file", "etcd"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Metadata whose leases are timed by bookies' own host, or by etcd's."""
    if request.param == "a file":
        return f"sqlite://{tmp_path}/metadata.db"
    etcd: EtcdServer = request.getfixturevalue("etcd")
    return f"etcd://{etcd.endpoint}/{tmp_path.name}"


async def test_what_a_lost_bookie_held_is_copied_though_wall_clocks_are_set_back(
    tmp_path: Path, clock: SteppedClock, either: str
) -> None:
    """Nor does it matter that the absence was noted in what is the future now."""
    clock.step(3600)
    async with on_healing_bookies(tmp_path, 4, environment=clock.environment, uri=either) as (
        cluster,
        client,
        store,
    ):
        writer = await new_ledger(client)
        await writer.close()
        lost = writer.record.fragments[0].ensemble[1]
        cluster.kill(lost)
        await absence(store)
        clock.step(0)
        record = await healed(client, writer.ledger_id, lambda record: lost.bookie_id not in names(record))
        await is_whole(client, record, ENTRIES - 1)
        await unmarked(store, writer.ledger_id)


async def test_wall_clocks_that_are_set_ahead_make_no_bookie_lost(
    tmp_path: Path, clock: SteppedClock, either: str
) -> None:
    """It may only be restarting."""
    async with on_healing_bookies(tmp_path, 4, lost_after=600, environment=clock.environment, uri=either) as (
        cluster,
        client,
        store,
    ):
        writer = await new_ledger(client)
        await writer.close()
        cluster.kill(writer.record.fragments[0].ensemble[1])
        await absence(store)
        clock.step(3600)
        stepped = await absence(store, longer_than_ms=await absence(store))
        assert stepped < await absence(store, longer_than_ms=stepped) < 600_000
        assert await Marks(store).read(writer.ledger_id) is None


async def test_a_copy_that_a_writer_gave_up_is_made_by_its_own_bookie(tmp_path: Path) -> None:
    """The record said what it lacks, and nobody searched for it."""
    async with on_healing_bookies(tmp_path, 3, lost_after=600) as (cluster, client, store):
        writer = await new_ledger(client)
        hung = writer.record.fragments[0].ensemble[2]
        cluster.pause(hung)
        await filled(writer)
        await writer.close()
        assert writer.record.fragments[0].lacking
        assert isinstance(await Marks(store).read(writer.ledger_id), Mark)
        cluster.resume_all()
        record = await healed(client, writer.ledger_id, lambda record: not record.fragments[0].lacking)
        assert hung in record.fragments[0].ensemble
        await is_whole(client, record, 2 * ENTRIES - 1)
        await unmarked(store, writer.ledger_id)


async def test_what_a_recovery_was_told_nothing_of_is_looked_after(tmp_path: Path) -> None:
    """A writer died whose third copy was far behind."""
    async with on_healing_bookies(tmp_path, 3, lost_after=600) as (cluster, client, _):
        writer = await new_ledger(client)
        hung = writer.record.fragments[0].ensemble[0]
        cluster.pause(hung)
        await filled(writer)
        await writer.abandon()
        cluster.resume_all()
        reader = await client.open_ledger(writer.ledger_id)
        assert len(reader.record.fragments[-1].lacking) == 3
        record = await healed(client, writer.ledger_id, lambda r: not any(f.lacking for f in r.fragments))
        await is_whole(client, record, reader.last_add_confirmed)


async def test_a_closed_fragment_is_healed_while_the_writer_goes_on(tmp_path: Path) -> None:
    """It meets the change of an earlier fragment when it closes."""
    async with on_healing_bookies(tmp_path, 5) as (cluster, client, _):
        writer = await new_ledger(client)
        lost = writer.record.fragments[0].ensemble[0]
        cluster.kill(lost)
        await filled(writer)
        await healed(client, writer.ledger_id, lambda record: len(record.fragments) == 2)
        await healed(client, writer.ledger_id, lambda record: lost.bookie_id not in names(record))
        await filled(writer)
        await writer.close()
        await is_whole(client, await client.describe_ledger(writer.ledger_id), 3 * ENTRIES - 1)


async def test_a_bookie_that_is_drained_keeps_nothing_that_is_needed(tmp_path: Path) -> None:
    async with on_healing_bookies(tmp_path, 4) as (_, client, store):
        writer = await new_ledger(client)
        await writer.close()
        leaving = writer.record.fragments[0].ensemble[0]
        await operator_requests.give(
            store, Order(leaving.bookie_id, OrderKind.DRAIN, int(time.time() * 1000))
        )
        record = await healed(client, writer.ledger_id, lambda record: leaving.bookie_id not in names(record))
        await is_whole(client, record, ENTRIES - 1)


@pytest.mark.long
async def test_another_bookie_is_the_auditor_soon_after_the_auditor_has_died(tmp_path: Path) -> None:
    async with on_healing_bookies(tmp_path, 3) as (cluster, _, store):
        first = await auditor(store, other_than="")
        cluster.bookies[first].kill()
        assert await auditor(store, other_than=first) != first


async def auditor(store: MetadataStore, *, other_than: str) -> str:
    async with asyncio.timeout(HEALED_SECONDS_MAX):
        while True:
            found = await lease_lock.read(store, keys.AUDITOR)
            if found is not None and found.bookie.bookie_id != other_than:
                return found.bookie.bookie_id
            await asyncio.sleep(0.2)
