"""The client on real bookies, served in this process: what the public contract promises."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import ledgers
from bookie import directory
from bookie.config import BookieConfig
from bookie.daemon import RunningBookie, serving
from ledgers import (
    ClientConfig,
    DigestType,
    DuplicateEntry,
    Entry,
    EntryTooLarge,
    LedgerClosed,
    LedgerExists,
    LedgerFenced,
    LedgerRecoveryFailed,
    LedgerState,
    NoSuchEntry,
    NoSuchLedger,
    NotEnoughBookies,
    Unauthorized,
)
from ledgers.aio import LedgerClient, ReadHandle
from ledgers.write_handle import ENTRY_OVERHEAD_BYTES
from metadata import open_store
from metadata.errors import BadMetadataUri
from metadata.store import MetadataStore
from tests.support.aio import run

QUICK = ClientConfig(
    append_seconds_max=2, recovery_tries_max=1, retry_replacement_seconds=0.1, read_seconds_max=2
)


@dataclass
class InProcessCluster:
    """Bookies served by this loop, which can be stopped and started one by one."""

    path: Path
    uri: str
    store: MetadataStore
    stacks: dict[str, AsyncExitStack] = field(default_factory=dict)
    running: dict[str, RunningBookie] = field(default_factory=dict)

    async def start(self, name: str) -> None:
        data = self.path / name
        if not data.exists():
            await directory.format_directory(data, name, self.store)
        stack = self.stacks[name] = AsyncExitStack()
        port = int(self.running[name].address.rsplit(":", 1)[1]) if name in self.running else 0
        config = BookieConfig(data_directory=data, metadata_uri=self.uri, port=port)
        self.running[name] = await stack.enter_async_context(serving(config, self.store))

    async def stop(self, name: str) -> None:
        await self.stacks.pop(name).aclose()


@asynccontextmanager
async def cluster_of(tmp_path: Path, bookies: int) -> AsyncIterator[InProcessCluster]:
    uri = f"sqlite://{tmp_path}/metadata.db"
    store = await open_store(uri)
    cluster = InProcessCluster(tmp_path, uri, store)
    try:
        for n in range(1, bookies + 1):
            await cluster.start(f"b{n}")
        yield cluster
    finally:
        for name in list(cluster.stacks):
            await cluster.stop(name)
        await store.close()


Scenario = Callable[[InProcessCluster, LedgerClient], Awaitable[None]]


def on_bookies(tmp_path: Path, bookies: int, scenario: Scenario) -> None:
    async def whole() -> None:
        async with (
            cluster_of(tmp_path, bookies) as cluster,
            LedgerClient(cluster.uri, config=QUICK) as client,
        ):
            await scenario(cluster, client)

    run(whole(), timeout_seconds=60)


async def payloads(reader: ReadHandle) -> list[bytes]:
    return [entry.payload async for entry in reader.read()]


def test_the_contract_of_the_blocking_client(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, _: LedgerClient) -> None:
        await asyncio.to_thread(use_it, cluster.uri)

    def use_it(uri: str) -> None:
        with ledgers.LedgerClient(uri) as client:
            with client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2) as writer:
                assert writer.append(b"zero") == 0
                futures = [writer.append_async(b"%d" % n) for n in range(1, 500)]
                writer.flush()
                assert [future.result() for future in futures] == list(range(1, 500))
                assert writer.last_add_confirmed == 499
            reader = client.open_ledger(writer.ledger_id)
            assert next(iter(reader.read(0, 0))) == Entry(0, b"zero")
            assert [e.entry_id for e in reader.read(0, reader.last_add_confirmed)] == list(range(500))
            assert reader.read_entry(7).payload == b"7"
            follower = client.open_ledger(writer.ledger_id, recovery=False)
            assert [e.entry_id for e in follower.tail(start=498)] == [498, 499]
            assert [r.ledger_id for r in client.list_ledgers()] == [writer.ledger_id]
            assert client.describe_ledger(writer.ledger_id).length_bytes == 4 + 9 + 2 * 90 + 3 * 400
            client.delete_ledger(writer.ledger_id)
            with pytest.raises(NoSuchLedger):
                client.open_ledger(writer.ledger_id)

    on_bookies(tmp_path, 3, scenario)


def test_an_entry_over_the_limit_is_refused_and_the_writer_goes_on(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        async with await client.create_ledger() as writer:
            with pytest.raises(EntryTooLarge, match="split it"):
                await writer.append(bytes(4 * 1024 * 1024 + 1))
            assert await writer.append(bytes(4 * 1024 * 1024)) == 0
            assert await writer.append(b"") == 1
        reader = await client.open_ledger(writer.ledger_id)
        assert [len(p) for p in await payloads(reader)] == [4 * 1024 * 1024, 0]

    on_bookies(tmp_path, 3, scenario)


def test_R2_recovery_keeps_what_was_confirmed_and_fences_the_writer(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        for n in range(10):
            await writer.append(b"%d" % n)
        reader = await client.open_ledger(writer.ledger_id)
        assert reader.record.state is LedgerState.CLOSED
        assert await payloads(reader) == [b"%d" % n for n in range(10)]
        with pytest.raises(LedgerFenced) as fenced:
            await writer.append(b"late")
        assert fenced.value.first_unconfirmed == 10
        assert "entry 10 is the first that is not confirmed" in str(fenced.value)
        for ended in (writer.flush, writer.close):
            with pytest.raises(LedgerFenced):
                await ended()

    on_bookies(tmp_path, 3, scenario)


def test_C1_a_writer_whose_ledger_was_recovered_at_its_own_end_closes_well(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        await writer.append(b"all there is")
        await client.open_ledger(writer.ledger_id)
        await writer.close()

    on_bookies(tmp_path, 3, scenario)


def test_R5_recoverers_that_race_agree_on_one_end(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        futures = [await writer.append_async(b"x" * 100) for _ in range(500)]
        async with LedgerClient(cluster.uri) as other:
            readers = await asyncio.gather(
                *(c.open_ledger(writer.ledger_id) for c in (client, other, client, other))
            )
        ends = {reader.last_add_confirmed for reader in readers}
        assert len(ends) == 1
        confirmed = [f.result() for f in futures if f.done() and f.exception() is None]
        assert not confirmed or confirmed[-1] <= ends.pop()
        await writer.abandon()

    on_bookies(tmp_path, 3, scenario)


def test_W7_an_empty_disk_under_an_old_name_is_never_taken_for_the_old_bookie(tmp_path: Path) -> None:
    """F15: bookies replaced by empty ones at the same address accept nothing from a stale writer."""

    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
        await writer.append(b"kept")
        for name in ("b1", "b2"):
            await cluster.stop(name)
            (cluster.path / name).rename(cluster.path / f"{name}-old")
            cookie = await cluster.store.get(f"cookies/{name}")
            assert cookie is not None
            await cluster.store.delete(f"cookies/{name}", cookie.version)
            await cluster.start(name)
        with pytest.raises(NotEnoughBookies):
            await writer.append(b"must not be confirmed by strangers")
        with pytest.raises(LedgerRecoveryFailed, match="another incarnation"):
            await client.open_ledger(writer.ledger_id)
        assert (await client.describe_ledger(writer.ledger_id)).state is LedgerState.IN_RECOVERY

    on_bookies(tmp_path, 2, scenario)


def test_recovery_that_cannot_decide_fails_and_succeeds_when_the_bookies_are_back(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        for n in range(5):
            await writer.append(b"%d" % n)
        await writer.abandon()
        await cluster.stop("b1")
        await cluster.stop("b2")
        with pytest.raises(LedgerRecoveryFailed, match="b1"):
            await client.open_ledger(writer.ledger_id)
        await cluster.start("b1")
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"%d" % n for n in range(5)]

    on_bookies(tmp_path, 3, scenario)


def test_writing_goes_on_without_a_replacement_and_takes_the_bookie_back_when_it_returns(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        await writer.append(b"three copies")
        await cluster.stop("b2")
        for _ in range(20):
            await writer.append(b"two copies")
        await cluster.start("b2")

        while any(position.lane is None for position in writer._machine._positions):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await cluster.stop("b1")
        await writer.append(b"needs b2 and b3")
        await writer.close()
        assert len(writer.record.fragments) == 1, "a bookie that is back needs no change of metadata"
        reader = await client.open_ledger(writer.ledger_id)
        assert len(await payloads(reader)) == 22

    on_bookies(tmp_path, 3, scenario)


def test_too_few_live_bookies_end_the_writer_and_name_each(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        await writer.append(b"x")
        await cluster.stop("b1")
        await cluster.stop("b2")
        with pytest.raises(NotEnoughBookies) as error:
            await writer.append(b"nobody")
        assert {"b1", "b2"} <= error.value.reasons.keys()

    on_bookies(tmp_path, 3, scenario)


@pytest.mark.parametrize("shape", [(5, 3, 2), (4, 2, 2), (3, 2, 2)])
def test_a_striped_ledger_reads_back_whole_with_a_bookie_down(
    tmp_path: Path, shape: tuple[int, int, int]
) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        e, w, a = shape
        async with await client.create_ledger(ensemble_size=e, write_quorum=w, ack_quorum=a) as writer:
            for n in range(3000):
                await writer.append_async(b"%d" % n)
        await cluster.stop(writer.record.fragments[0].ensemble[1].bookie_id)
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"%d" % n for n in range(3000)]

    on_bookies(tmp_path, 5, scenario)


def test_a_tail_reader_follows_across_an_ensemble_change_to_the_close(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
        follower = await client.open_ledger(writer.ledger_id, recovery=False)
        seen: list[int] = []

        async def follow() -> None:
            async for entry in follower.tail():
                assert entry.payload == b"%d" % entry.entry_id
                seen.append(entry.entry_id)

        following = asyncio.create_task(follow())
        for n in range(300):
            await writer.append(b"%d" % n)
            if n in (100, 200):
                await cluster.stop(writer.record.fragments[-1].ensemble[n % 2].bookie_id)
        await writer.close()
        await following
        assert seen == list(range(300))
        assert len(writer.record.fragments) == 3

    on_bookies(tmp_path, 4, scenario)


def test_a_follower_without_recovery_never_disturbs_the_writer(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        for n in range(3):
            await writer.append(b"%d" % n)
        follower = await client.open_ledger(writer.ledger_id, recovery=False)
        while await follower.try_read_last_add_confirmed() < 2:
            pass  # the writer is idle: it tells the bookies by itself
        assert await follower.read_last_add_confirmed() == 2
        assert await payloads(follower) == [b"0", b"1", b"2"]
        with pytest.raises(NoSuchEntry):
            await follower.read_entry(3)
        assert await writer.append(b"undisturbed") == 3
        await writer.close()

    on_bookies(tmp_path, 3, scenario)


def test_an_hmac_ledger_opens_with_its_password_only_and_a_wrong_one_fences_nothing(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(digest=DigestType.HMAC_SHA256, password=b"right")
        await writer.append(b"secretly signed")
        with pytest.raises(Unauthorized):
            await client.open_ledger(writer.ledger_id, password=b"wrong")
        assert await writer.append(b"not fenced") == 1
        reader = await client.open_ledger(writer.ledger_id, password=b"right")
        assert await payloads(reader) == [b"secretly signed", b"not fenced"]
        with pytest.raises(ValueError, match="needs a password"):
            await client.create_ledger(digest=DigestType.HMAC_SHA256)

    on_bookies(tmp_path, 3, scenario)


def test_a_chosen_id_is_given_once_and_custom_metadata_is_kept(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        async with await client.create_ledger(ledger_id=42, custom_metadata={"app": b"\x00x"}):
            pass
        assert (await client.describe_ledger(42)).custom_metadata == {"app": b"\x00x"}
        with pytest.raises(LedgerExists):
            await client.create_ledger(ledger_id=42)
        with pytest.raises(ValueError, match="custom metadata"):
            await client.create_ledger(custom_metadata={"big": bytes(70_000)})

    on_bookies(tmp_path, 3, scenario)


def test_a_closed_writer_takes_nothing_more(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        await writer.append(b"x")
        await writer.close()
        await writer.close()
        with pytest.raises(LedgerClosed):
            await writer.append(b"late")

    on_bookies(tmp_path, 3, scenario)


def test_pending_bytes_are_bounded_and_a_full_writer_waits(tmp_path: Path) -> None:
    config = ClientConfig(pending_bytes_max=1024 * 1024)

    async def scenario(cluster: InProcessCluster, _: LedgerClient) -> None:
        async with LedgerClient(cluster.uri, config=config) as bounded:
            writer = await bounded.create_ledger()
            for _n in range(400):
                await writer.append_async(bytes(50_000))
                assert writer.pending_bytes <= config.pending_bytes_max + 50_000
            await writer.close()

    on_bookies(tmp_path, 3, scenario)


def test_advanced_appends_come_in_any_order_and_read_back_in_id_order(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger_adv()
        ids = list(range(300))
        random.Random(5).shuffle(ids)
        futures = {entry_id: await writer.append_async(entry_id, b"%d" % entry_id) for entry_id in ids}
        assert {entry_id: await future for entry_id, future in futures.items()} == {i: i for i in ids}
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"%d" % n for n in range(300)]

    on_bookies(tmp_path, 3, scenario)


def test_a_gap_bounds_the_ledger_and_duplicates_are_refused(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger_adv()
        behind_the_gap = await writer.append_async(2, b"two")
        assert await writer.append(0, b"zero") == 0
        for taken in (0, 2):
            with pytest.raises(DuplicateEntry):
                await writer.append(taken, b"again")
        await writer.flush()
        assert (writer.last_add_confirmed, writer.first_gap) == (0, 1)
        await writer.close()
        with pytest.raises(LedgerClosed, match="entry 1 was never appended"):
            await behind_the_gap
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"zero"]

    on_bookies(tmp_path, 3, scenario)


def test_the_entry_that_fills_a_gap_passes_a_writer_full_of_later_ones(tmp_path: Path) -> None:
    config = ClientConfig(pending_bytes_max=1024 * 1024)

    async def scenario(cluster: InProcessCluster, _: LedgerClient) -> None:
        async with LedgerClient(cluster.uri, config=config) as bounded:
            writer = await bounded.create_ledger_adv()
            futures = [await writer.append_async(n, bytes(300_000)) for n in range(1, 5)]
            waiting = asyncio.create_task(writer.append(5, bytes(300_000)))
            assert await writer.append(0, bytes(300_000)) == 0
            assert [await future for future in futures] == [1, 2, 3, 4]
            assert await waiting == 5
            await writer.close()

    on_bookies(tmp_path, 3, scenario)


def test_entries_behind_a_gap_fail_with_what_ended_their_writer(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger_adv()
        behind_the_gap = await writer.append_async(1, b"one")
        await client.open_ledger(writer.ledger_id)
        with pytest.raises(LedgerFenced):
            await writer.append(0, b"zero")
        with pytest.raises(LedgerFenced):
            await behind_the_gap
        with pytest.raises(LedgerFenced):
            await writer.append_async(7, b"late")

    on_bookies(tmp_path, 3, scenario)


def test_a_client_that_is_closed_leaves_no_append_without_an_answer(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        hasty = LedgerClient(cluster.uri)
        writer = await hasty.create_ledger()
        futures = [await writer.append_async(b"x" * 1000) for _ in range(2000)]
        await hasty.close()
        answers = await asyncio.gather(*futures, return_exceptions=True)
        assert {type(answer) for answer in answers} <= {int, LedgerClosed}
        confirmed = [answer for answer in answers if isinstance(answer, int)]
        reader = await client.open_ledger(writer.ledger_id)
        assert reader.last_add_confirmed >= len(confirmed) - 1

    on_bookies(tmp_path, 3, scenario)


def test_many_ledgers_are_made_and_written_at_once(tmp_path: Path) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writers = await asyncio.gather(*(client.create_ledger() for _ in range(200)))
        assert len({writer.ledger_id for writer in writers}) == 200
        assert await asyncio.gather(*(writer.append(b"first") for writer in writers)) == [0] * 200
        await asyncio.gather(*(writer.close() for writer in writers))

    on_bookies(tmp_path, 3, scenario)


@pytest.mark.parametrize(("size", "digest"), [(0, DigestType.CRC32C), (1, DigestType.HMAC_SHA256)])
def test_very_many_tiny_entries_at_once_fit_messages_and_bounds(
    tmp_path: Path, size: int, digest: DigestType
) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(digest=digest, password=b"p")
        for _n in range(300_000):
            await writer.append_async(b"x" * size)
            assert writer.pending_bytes <= QUICK.pending_bytes_max + ENTRY_OVERHEAD_BYTES + size
        await writer.close()
        assert len(writer.record.fragments) == 1, "no bookie was taken for a failed one"
        reader = await client.open_ledger(writer.ledger_id, password=b"p")
        assert [e.entry_id async for e in reader.read(299_990)] == list(range(299_990, 300_000))

    on_bookies(tmp_path, 3, scenario)


def test_a_blocked_append_is_told_when_its_writer_ends(tmp_path: Path) -> None:
    config = ClientConfig(pending_bytes_max=1024 * 1024, append_quorum_seconds_max=1)

    def append_for_ever(writer: ledgers.WriteHandle) -> None:
        while True:
            writer.append_async(bytes(100_000))

    async def scenario(cluster: InProcessCluster, _: LedgerClient) -> None:
        def use_it() -> None:
            with ledgers.LedgerClient(cluster.uri, config=config) as client:
                writer = client.create_ledger()
                writer.append(b"x")
                asyncio.run_coroutine_threadsafe(stop_two(), loop).result()
                with pytest.raises(NotEnoughBookies):
                    append_for_ever(writer)

        async def stop_two() -> None:
            await cluster.stop("b1")
            await cluster.stop("b2")

        loop = asyncio.get_running_loop()
        await asyncio.to_thread(use_it)

    on_bookies(tmp_path, 3, scenario)


@pytest.mark.parametrize("wrong", ["text", bytearray(b"x"), memoryview(b"x"), None, 7])
def test_what_is_not_bytes_is_refused_and_no_other_entry_is_touched(tmp_path: Path, wrong: object) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger()
        first = await writer.append_async(b"good")
        with pytest.raises(TypeError, match="an entry is bytes"):
            await writer.append_async(wrong)  # type: ignore[arg-type]
        assert (await first, await writer.append(b"next")) == (0, 1)
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"good", b"next"]

    on_bookies(tmp_path, 3, scenario)


def test_a_wrong_uri_says_what_to_write() -> None:
    with pytest.raises((ledgers.LedgerError, BadMetadataUri), match="write etcd://HOST:PORT"):
        ledgers.LedgerClient("nonsense")
