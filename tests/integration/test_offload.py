"""Closed ledgers in an object store, here a directory, on real bookies.

O1: a copy is named before it is made, and complete once it was read back.
O2: bookies keep nothing only where the record names a complete copy.
O3: what a record stops naming goes; what comes back goes once no copy lacks anything.
O4: what is read from an object is verified, and an error names it.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookie.upkeep.schedule import Depth
from bookledger.errors import EntryUnreadable, LedgerError, NoSuchLedger
from ledgers import DigestType
from ledgers.aio import LedgerClient
from ledgers.cold import cold_reader
from ledgers.cold.errors import NotOffloaded, ObjectStoreFailed
from ledgers.cold.layout import encode_block
from ledgers.cold.object_store import MARKER, Objects
from ledgers.offloading import offload as offloading
from ledgers.offloading import upload as uploading
from metadata.records.cold import removals
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore
from metadata.records.notes.cold_index import ColdIndex
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster, on_bookies, payloads
from tests.support.present import there

ENTRIES = 300


@pytest.fixture
async def on_four(tmp_path: Path) -> AsyncIterator[tuple[InProcessCluster, LedgerClient]]:
    async with on_bookies(tmp_path, 4) as both:
        yield both


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    directory = tmp_path / "archive"
    directory.mkdir()
    return directory


def url_of(archive: Path) -> str:
    return f"file://{archive}"


def payload(n: int, times: int = 20) -> bytes:
    return b"%d " % n * times


async def closed(client: LedgerClient, entries: int = ENTRIES, *, times: int = 20, **arguments: Any) -> int:
    async with await client.create_ledger(**arguments) as writer:
        await asyncio.gather(*[writer.append(payload(n, times)) for n in range(entries)])
    return writer.ledger_id


def objects(archive: Path) -> list[Path]:
    return [one for one in archive.rglob("*") if one.is_file() and one.name != MARKER]


async def dies_uploading(client: LedgerClient, ledger_id: int, archive: Path) -> None:
    """A program that dies when the objects are written, and gives nothing up."""

    async def dies(*_: Any) -> None:
        raise ObjectStoreFailed("s3://archive", "the program died")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(offloading, "check_uploaded", dies)
        patched.setattr(offloading, "_give_up", dies)
        with pytest.raises(ObjectStoreFailed, match="died"):
            await client.offload_ledger(ledger_id, url_of(archive))


async def collected(cluster: InProcessCluster) -> None:
    for one in cluster.running.values():
        await one.upkeep.round(Depth.MAJOR)


def frames_of(cluster: InProcessCluster, ledger_id: int) -> int:
    return sum(len(list(one.bookie.index.places(ledger_id))) for one in cluster.running.values())


async def test_O2_a_ledger_is_read_from_the_object_store_once_bookies_have_dropped_it(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path
) -> None:
    cluster, client = on_four
    ledger_id = await closed(client)
    before = await client.open_ledger(ledger_id)
    record = await client.offload_ledger(ledger_id, url_of(archive))
    assert record.is_on_no_bookie and record.cold is not None and record.cold.size_bytes > 0
    await collected(cluster)
    assert frames_of(cluster, ledger_id) == 0
    expected = [payload(n) for n in range(ENTRIES)]
    assert await payloads(await client.open_ledger(ledger_id)) == expected
    assert await payloads(before) == expected, "who has it open goes on"
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        reader = await other.open_ledger(ledger_id)
        assert (await reader.read_entry(117)).payload == payload(117)
        batch = await reader.read_batch(290, entries_max=100, bytes_max=1 << 20)
        assert [one.payload for one in batch] == expected[290:]
        assert [one.entry_id async for one in reader.tail(295)] == list(range(295, 300))


async def test_O1_the_copy_is_named_before_it_is_made_and_complete_before_bookies_drop_theirs(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, client = on_four
    ledger_id = await closed(client)
    seen: list[LedgerRecord] = []
    real = uploading.upload

    async def watched(*arguments: Any) -> Any:
        seen.append(await client.describe_ledger(ledger_id))
        return await real(*arguments)

    monkeypatch.setattr(offloading, "upload", watched)
    kept = await client.offload_ledger(ledger_id, url_of(archive), keep_on_bookies=True)
    (during,) = seen
    assert during.cold is not None and not during.cold.is_stored and kept.cold is not None
    assert during.cold.key == kept.cold.key and kept.fragments == during.fragments
    await collected(cluster)
    assert frames_of(cluster, ledger_id) > 0
    assert await client.offload_ledger(ledger_id, "file:///elsewhere", keep_on_bookies=True) == kept


@pytest.mark.parametrize("step", ["upload", "check_uploaded", "change"])
async def test_O1_what_fails_at_any_step_leaves_the_bookies_all_and_the_store_nothing(
    on_four: tuple[InProcessCluster, LedgerClient],
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    cluster, client = on_four
    ledger_id = await closed(client)
    real, calls = getattr(offloading, step), 0

    async def failing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if step == "change" and calls != 2:
            return await real(*arguments)
        if step != "change":
            await real(*arguments)
        raise ObjectStoreFailed("s3://archive", "it is away")

    with monkeypatch.context() as patched:
        patched.setattr(offloading, step, failing)
        with pytest.raises(ObjectStoreFailed, match="it is away"):
            await client.offload_ledger(ledger_id, url_of(archive))
    record = await client.describe_ledger(ledger_id)
    assert record.cold is None and all(fragment.ensemble for fragment in record.fragments)
    assert objects(archive) == []
    assert [one async for one in removals.list_removals(cluster.store)] == []
    assert (await client.offload_ledger(ledger_id, url_of(archive))).is_on_no_bookie


async def test_O1_an_object_that_is_not_what_was_read_from_bookies_is_not_named(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = on_four
    ledger_id = await closed(client)
    real = encode_block

    def with_wrong_payload(pages: Any) -> Any:
        return real([replace(pages[0], payload=b"?" + bytes(pages[0].payload)[1:]), *pages[1:]])

    monkeypatch.setattr(uploading, "encode_block", with_wrong_payload)
    with pytest.raises(NotOffloaded, match="differ from the ledger"):
        await client.offload_ledger(ledger_id, url_of(archive))
    assert (await client.describe_ledger(ledger_id)).cold is None and objects(archive) == []


async def test_O1_of_two_one_wins_and_only_its_object_is_left(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path
) -> None:
    cluster, client = on_four
    ledger_id = await closed(client)
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        done = await asyncio.gather(
            client.offload_ledger(ledger_id, url_of(archive)),
            other.offload_ledger(ledger_id, url_of(archive)),
            return_exceptions=True,
        )
    assert any(isinstance(one, LedgerRecord) for one in done), done
    assert all(isinstance(one, LedgerRecord | NotOffloaded) for one in done), done
    record = await client.describe_ledger(ledger_id)
    assert record.cold is not None
    assert objects(archive) == [archive / record.cold.name_of(0)]
    assert await payloads(await client.open_ledger(ledger_id)) == [payload(n) for n in range(ENTRIES)]


async def test_O1_an_upload_whose_program_died_is_taken_over_after_a_day_and_its_object_goes(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = on_four
    ledger_id = await closed(client)
    await dies_uploading(client, ledger_id, archive)
    assert len(objects(archive)) == 1
    with pytest.raises(NotOffloaded, match="another program has been copying it since"):
        await client.offload_ledger(ledger_id, url_of(archive))
    monkeypatch.setattr(offloading, "_is_old", lambda _: True)
    record = await client.offload_ledger(ledger_id, url_of(archive))
    assert record.cold is not None
    assert objects(archive) == [archive / record.cold.name_of(0)]


@pytest.mark.parametrize("is_only_there", [True, False])
async def test_O3_a_deleted_ledger_has_no_objects(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, is_only_there: bool
) -> None:
    cluster, client = on_four
    ledger_id = await closed(client)
    await client.offload_ledger(ledger_id, url_of(archive), keep_on_bookies=not is_only_there)
    await client.delete_ledger(ledger_id)
    assert await client.remove_unneeded_objects() == 1
    assert objects(archive) == []
    assert [one async for one in removals.list_removals(cluster.store)] == []
    with pytest.raises(NoSuchLedger):
        await client.open_ledger(ledger_id)


async def test_O3_a_ledger_comes_back_to_bookies_and_its_objects_go(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path
) -> None:
    cluster, client = on_four
    ledger_id = await closed(client)
    await client.offload_ledger(ledger_id, url_of(archive))
    await collected(cluster)
    expected = [payload(n) for n in range(ENTRIES)]

    async def is_back() -> bool:
        record = await client.recall_ledger(ledger_id)
        assert await payloads(await client.open_ledger(ledger_id)) == expected
        return record.cold is None

    await until_true(is_back)
    assert objects(archive) == []
    record = await client.describe_ledger(ledger_id)
    assert all(len(one.ensemble) == 3 and not one.lacking for one in record.fragments)
    assert await payloads(await client.open_ledger(ledger_id)) == expected


async def test_O3_the_objects_of_a_ledger_stay_while_a_bookie_that_should_have_it_is_away(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path
) -> None:
    """Nothing says that the bookie lacks anything; it may have lost its disk."""
    cluster, client = on_four
    ledger_id = await closed(client)
    kept = await client.offload_ledger(ledger_id, url_of(archive), keep_on_bookies=True)
    away = kept.fragments[0].ensemble[0].bookie_id
    await cluster.stop(away)
    assert (await client.recall_ledger(ledger_id)).cold == kept.cold
    assert len(objects(archive)) == 1
    await cluster.start(away)
    assert (await client.recall_ledger(ledger_id)).cold is None
    assert objects(archive) == []


async def test_O3_an_upload_whose_program_died_is_cancelled_also_while_a_bookie_lacks_entries(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, client = on_four
    ledger_id = await closed(client)
    await dies_uploading(client, ledger_id, archive)
    ledgers = LedgerStore(cluster.store)
    found = there(await ledgers.read(ledger_id))
    await ledgers.change(found.record.with_lacking(0, 0, ENTRIES - 1), found.version)
    assert (await client.recall_ledger(ledger_id)).cold is None


async def test_O4_a_range_is_read_on_from_bookies_when_the_ledger_was_recalled_meanwhile(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, client = on_four
    monkeypatch.setattr(uploading, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(cold_reader, "CACHE_BYTES_MAX", 0)
    monkeypatch.setattr(cold_reader, "BLOCKS_AHEAD", 0)
    ledger_id = await closed(client, times=3000)
    await client.offload_ledger(ledger_id, url_of(archive))
    await collected(cluster)
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        reader = await other.open_ledger(ledger_id)
        pages = reader.read(0, ENTRIES - 1)
        first = await anext(pages)

        async def is_back() -> bool:
            return (await client.recall_ledger(ledger_id)).cold is None

        await until_true(is_back)
        assert objects(archive) == []
        rest = [one.payload async for one in pages]
        assert [first.payload, *rest] == [payload(n, 3000) for n in range(ENTRIES)]


async def test_O4_every_entry_before_an_object_that_is_missing_is_returned(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, client = on_four
    monkeypatch.setattr(uploading, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(offloading, "PART_BYTES_MAX", 1000)
    ledger_id = await closed(client, times=3000)
    copy = (await client.offload_ledger(ledger_id, url_of(archive))).cold
    assert copy is not None
    (archive / copy.name_of(2)).unlink()
    real, asked, read = cold_reader.fetch_index, list[str](), list[int]()

    async def fetch_index(where: Objects, name: str) -> ColdIndex:
        asked.append(name)
        return await real(where, name)

    monkeypatch.setattr(cold_reader, "fetch_index", fetch_index)
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        with pytest.raises(EntryUnreadable, match="there is no such object") as raised:
            async for one in (await other.open_ledger(ledger_id)).read(0, ENTRIES - 1):
                read.append(one.entry_id)
    assert read == list(range(copy.part_starts[2])) and raised.value.entry_id == copy.part_starts[2]
    assert asked.count(copy.name_of(2)) == 2, "once ahead, and once when it is due: each may take a minute"


async def test_O3_what_a_killed_upload_left_in_a_directory_goes_with_the_copy(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path
) -> None:
    _, client = on_four
    ledger_id = await closed(client)
    copy = (await client.offload_ledger(ledger_id, url_of(archive))).cold
    assert copy is not None
    (archive / copy.key / "1#1").write_bytes(b"as obstore stages an object")
    await client.delete_ledger(ledger_id)
    assert await client.remove_unneeded_objects() == 1
    assert list(archive.iterdir()) == [archive / MARKER]


async def test_O4_a_store_that_lost_an_object_is_told_with_its_name_and_a_damaged_block_too(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path
) -> None:
    cluster, client = on_four
    ledger_id = await closed(client)
    await client.offload_ledger(ledger_id, url_of(archive))
    (one,) = objects(archive)
    data = one.read_bytes()
    async with LedgerClient(cluster.uri, config=QUICK) as other:
        one.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
        with pytest.raises(EntryUnreadable, match=f"{one}: block 0 is damaged"):
            await payloads(await other.open_ledger(ledger_id))
        one.unlink()
        with pytest.raises(EntryUnreadable, match=f"{one}: there is no such object"):
            await (await other.open_ledger(ledger_id)).read_entry(5)
        one.write_bytes(data)
        assert await payloads(await other.open_ledger(ledger_id)) == [payload(n) for n in range(ENTRIES)]


async def test_a_striped_ledger_with_a_password_in_several_objects(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, client = on_four
    monkeypatch.setattr(uploading, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(offloading, "PART_BYTES_MAX", 1000)
    ledger_id = await closed(
        client,
        times=3000,
        ensemble_size=4,
        write_quorum=2,
        password=b"secret",
        digest=DigestType.HMAC_SHA256,
    )
    record = await client.offload_ledger(ledger_id, url_of(archive), password=b"secret")
    await collected(cluster)
    assert record.cold is not None and len(objects(archive)) == len(record.cold.part_starts) > 1
    reader = await client.open_ledger(ledger_id, password=b"secret")
    assert await payloads(reader) == [payload(n, 3000) for n in range(ENTRIES)]
    assert [one.entry_id async for one in reader.read(123, 156)] == list(range(123, 157))


async def test_what_cannot_be_copied_is_said(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = on_four
    empty, writer = await closed(client, 0), await client.create_ledger()
    with pytest.raises(NotOffloaded, match="it is empty"):
        await client.offload_ledger(empty, url_of(archive))
    with pytest.raises(NotOffloaded, match="it is not closed"):
        await client.offload_ledger(writer.ledger_id, url_of(archive))
    with pytest.raises(ValueError, match="must not contain credentials"):
        await client.offload_ledger(await closed(client, 1), "s3://key:secret@bucket/prefix")
    with pytest.raises(ObjectStoreFailed, match="create it, or mount the file system that belongs there"):
        await client.offload_ledger(await closed(client, 1), f"file://{archive}/not-mounted")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(LedgerError, match=r"bookledger\[cold\]"):
        await client.offload_ledger(await closed(client, 1), url_of(archive))


async def test_where_the_bytes_of_a_ledger_lie_is_told_by_its_blocks(
    on_four: tuple[InProcessCluster, LedgerClient], archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So Spark cuts tasks of equal bytes, at blocks."""
    _, client = on_four
    monkeypatch.setattr(uploading, "BLOCK_BYTES", 1 << 20)
    async with await client.create_ledger() as writer:
        for size in [1000] * 100 + [1_000_000] * 5 + [1000] * 100:
            await writer.append(random.Random(size).randbytes(size))
    record = await client.offload_ledger(writer.ledger_id, url_of(archive))
    steps = await client.size_steps(record, step_bytes=1 << 20)
    assert steps[-1].entry_id == 205 and steps[-1].bytes_before == pytest.approx(
        record.length_bytes, rel=0.01
    )
    assert len(steps) > 4 and max(step.bytes_before for step in steps if step.entry_id <= 100) < 1_300_000
    part = await client.size_steps(record, step_bytes=1 << 20, first_entry=102, last_entry=104)
    assert part[0].entry_id == 102 and part[-1].entry_id == 105
    for one in objects(archive):
        one.unlink()
    async with LedgerClient(client._uri, config=QUICK) as other:
        assert (await other.size_steps(record, step_bytes=1 << 20))[-1] == (205, record.length_bytes)
