"""Ledgers whose bookies cannot read them, on real bookies: every way to write and read, and who needs the key."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers import BadEncryptionKey, ClientConfig, EntryTooLarge, LedgerError, NewLedger
from ledgers import LedgerClient as BlockingClient
from ledgers.aio import LedgerClient
from ledgers.integrity.encryption import ENCRYPTION, TAG_BYTES
from qjm_compat.aio import QuorumJournalManager
from tests.qjm_compat.journals import JOURNAL, NAMESPACE, frames, write_segment
from tests.support.in_process import QUICK, on_bookies, payloads

KEY, OTHER = bytes(range(32)), bytes(32)
SECRET = b"nobody who holds a disk reads this"
WITH_KEY = replace(QUICK, encryption_key=KEY)
WITHOUT = replace(QUICK, encryption_key=b"")


def on_disks(path: Path, secret: bytes) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file() and secret in file.read_bytes()]


async def test_all_ways_to_write_and_read_give_what_was_appended_and_no_disk_has_it(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, config=WITH_KEY) as (_, client):
        writer = await client.create_ledger(ack_quorum=2)
        await writer.append(SECRET)
        await writer.append_batch([SECRET + b"%d" % n for n in range(20)])
        writer.append_nowait(b"")
        await writer.flush()
        wanted = [SECRET, *[SECRET + b"%d" % n for n in range(20)], b""]
        follower = await client.open_ledger(writer.ledger_id, recovery=False)
        async with aclosing(follower.tail()) as entries:
            assert [(await anext(entries)).payload for _ in wanted] == wanted
        found = [e.payload async for e in follower.read_unconfirmed(0, len(wanted) - 1)]
        assert found == wanted
        await writer.close()
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == wanted
        assert (await reader.read_entry(3)).payload == wanted[3]
        batch = await reader.read_batch(2, entries_max=5, bytes_max=1 << 20)
        assert [entry.payload for entry in batch] == wanted[2:7]
        advanced = await client.create_ledger_adv(NewLedger())
        late = await advanced.append_async(1, SECRET)
        await advanced.append(0, b"first")
        assert await late == 1
        await advanced.close()
        assert await payloads(await client.open_ledger(advanced.ledger_id)) == [b"first", SECRET]
        assert (reader.record.length_bytes or 0) == sum(map(len, wanted)) + TAG_BYTES * len(wanted)
        assert on_disks(tmp_path, SECRET) == [] and on_disks(tmp_path, KEY) == []


async def test_the_same_in_plain_text_is_on_the_disks_so_that_the_test_above_can_fail(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, config=WITHOUT) as (_, client):
        async with await client.create_ledger() as writer:
            await writer.append(SECRET)
        assert len(on_disks(tmp_path, SECRET)) >= 3


async def test_recovery_and_deletion_need_no_key_and_reading_does(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, config=WITH_KEY) as (cluster, client):
        writer = await client.create_ledger()
        await writer.append(SECRET)
        await writer.abandon()
        async with LedgerClient(cluster.uri, config=WITHOUT) as other:
            recovered = await other.open_ledger(writer.ledger_id)
            assert recovered.is_closed and recovered.last_add_confirmed == 0
            with pytest.raises(
                BadEncryptionKey,
                match="no key was given: set BOOKLEDGER_KEY_FILE to the path of the key file",
            ):
                await recovered.read_entry(0)
        async with LedgerClient(cluster.uri, config=replace(QUICK, encryption_key=OTHER)) as other:
            reader = await other.open_ledger(writer.ledger_id)
            with pytest.raises(BadEncryptionKey, match="the given key is not the ledger's key"):
                await payloads(reader)
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [SECRET]
        async with LedgerClient(cluster.uri, config=WITHOUT) as other:
            await other.delete_ledger(writer.ledger_id)


async def test_a_ledger_in_plain_text_is_read_with_a_key_at_hand(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, config=WITHOUT) as (cluster, client):
        async with await client.create_ledger() as writer:
            await writer.append(b"plain")
        async with LedgerClient(cluster.uri, config=WITH_KEY) as other:
            assert await payloads(await other.open_ledger(writer.ledger_id)) == [b"plain"]


async def test_a_reserved_ledger_is_claimed_with_its_key_only(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, config=WITH_KEY) as (cluster, client):
        ledger_id = await client.reserve_ledger(NewLedger())
        for key in (b"", OTHER):
            async with LedgerClient(cluster.uri, config=replace(QUICK, encryption_key=key)) as other:
                with pytest.raises(BadEncryptionKey):
                    await other.claim_ledger(ledger_id)
        async with await client.claim_ledger(ledger_id) as writer:
            await writer.append(SECRET)
        assert await payloads(await client.open_ledger(ledger_id)) == [SECRET]


def test_an_entry_has_the_room_that_a_tag_leaves(uri: str) -> None:
    with BlockingClient(uri, config=ClientConfig(encryption_key=KEY)) as client:
        writer = client.create_ledger()
        largest = writer._entry_bytes_max
        for append in (
            writer.append,
            writer.append_nowait,
            lambda payload: writer.append_batch([payload]),
        ):
            with pytest.raises(EntryTooLarge):
                append(bytes(largest + 1))
        writer.append(bytes(largest))
        writer.close()
        (entry,) = client.open_ledger(writer.ledger_id).read()
        assert entry.payload == bytes(largest)


async def test_custom_metadata_of_an_encrypted_ledger_is_not_copied_to_another(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, config=WITH_KEY) as (_, client):
        writer = await client.create_ledger(custom_metadata={"mine": b"kept"})
        assert writer.record.custom_metadata["mine"] == b"kept"
        with pytest.raises(ValueError, match="belongs to another ledger"):
            await client.create_ledger(custom_metadata=dict(writer.record.custom_metadata))
        assert ENCRYPTION in writer.record.custom_metadata


async def test_a_journal_is_encrypted_recovered_and_followed_with_its_key(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, _):
        async with QuorumJournalManager(cluster.uri, JOURNAL, client_config=WITH_KEY) as manager:
            await manager.format(NAMESPACE)
            await manager.recover_unfinalized_segments()
            await write_segment(manager, 1, 5)
            out = await manager.start_log_segment(6)
            out.write_raw(frames(6, 2), 2)
            out.set_ready_to_flush()
            await out.flush()
        assert on_disks(tmp_path, b"/w/1") == []
        async with QuorumJournalManager(cluster.uri, JOURNAL, client_config=WITH_KEY) as manager:
            await manager.recover_unfinalized_segments()
            async with aclosing(manager.tail(1)) as edits:
                assert [(await anext(edits)).txid for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]


async def test_a_key_file_that_cannot_be_used_is_an_error_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, _):
        monkeypatch.setenv("BOOKLEDGER_KEY_FILE", str(tmp_path / "nowhere"))
        with pytest.raises(LedgerError, match=r"the encryption key cannot be used: .*nowhere"):
            async with LedgerClient(cluster.uri, config=QUICK):
                pass
