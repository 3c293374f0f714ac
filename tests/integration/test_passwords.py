"""Ledgers with a password on real bookies: who may write, fence and read, and what the key never does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bookie.wire import (
    AppendRequest,
    Credential,
    Frame,
    LacRequest,
    Status,
    codec,
    of_payloads,
)
from bookie.wire.credentials import Purpose
from bookie.wire.data.framing import Kind
from ledgers import DigestType, LedgerFenced, Unauthorized
from ledgers.aio import LedgerClient, WriteHandle
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.bookies.dialing import address_of
from ledgers.integrity.ledger_keys import LedgerKey
from tests.support.in_process import QUICK, InProcessCluster, on_bookies, payloads
from tests.support.raw_data import greeted

PASSWORD = b"correct horse battery staple"
BOTH = pytest.mark.parametrize("digest", list(DigestType))


async def statuses(cluster: InProcessCluster, writer: WriteHandle, key: LedgerKey) -> set[Status]:
    """What the writer's bookies say to an append and to a fence of whoever holds this key."""
    bookies = ConnectedBookies(cluster.store, QUICK)
    found: set[Status] = set()
    for bookie in writer.record.fragments[-1].ensemble:
        credential = key.credential(Purpose.FENCE, bookie.incarnation)
        request = LacRequest(bookie.incarnation, writer.ledger_id, fence=True, credential=credential)
        found.add((await bookies.last_add_confirmed(bookie, request)).status)
        async with greeted(await address_of(cluster.store, bookie)) as stream:
            credential = key.credential(Purpose.APPEND, bookie.incarnation, stream.welcome.nonce)
            frame = Frame(writer.ledger_id, of_payloads(0, [b"forged"], bytes(4)), credential=credential)
            append = AppendRequest(bookie.incarnation, 0, (frame,))
            stream.send(Kind.APPEND, 0, codec.encode_append_request(append))
            acks = await stream.acks()
            assert acks is not None
            found.add(acks[0].status)
    await bookies.close()
    return found


@BOTH
def test_a_ledger_with_a_password_is_written_recovered_and_read_by_who_knows_it(
    tmp_path: Path, digest: DigestType
) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(digest=digest, password=PASSWORD)
        assert await writer.append(b"a") == 0
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        assert await payloads(reader) == [b"a"]
        with pytest.raises(LedgerFenced):
            await writer.append(b"b")

    on_bookies(tmp_path, 3, scenario)


@BOTH
@pytest.mark.parametrize("wrong", [b"", b"guess"])
def test_a_client_with_the_wrong_password_is_refused_and_fences_nothing(
    tmp_path: Path, digest: DigestType, wrong: bytes
) -> None:
    async def scenario(_: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(digest=digest, password=PASSWORD)
        await writer.append(b"a")
        for recovery in (True, False):
            with pytest.raises(Unauthorized):
                await client.open_ledger(writer.ledger_id, recovery=recovery, password=wrong)
        assert await writer.append(b"b") == 1
        await writer.close()

    on_bookies(tmp_path, 3, scenario)


@pytest.mark.parametrize("key", ["none", "another password", "another ledger"])
def test_bookies_refuse_who_goes_around_the_client(tmp_path: Path, key: str) -> None:
    """Neither appends nor fences: a stranger can neither add to a ledger nor stop its writer."""

    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(password=PASSWORD)
        await writer.append(b"a")
        await writer.flush()
        strangers = {
            "none": LedgerKey(writer.ledger_id, b""),
            "another password": LedgerKey(writer.ledger_id, b"guess"),
            "another ledger": LedgerKey(writer.ledger_id + 1, PASSWORD),
        }
        assert await statuses(cluster, writer, strangers[key]) == {Status.UNAUTHORIZED}
        assert await writer.append(b"b") == 1
        await writer.close()
        assert await payloads(await client.open_ledger(writer.ledger_id, password=PASSWORD)) == [b"a", b"b"]

    on_bookies(tmp_path, 3, scenario)


def test_a_stranger_who_comes_before_the_writer_owns_nothing(tmp_path: Path) -> None:
    """A bookie that has not seen the ledger asks the metadata whose it is."""

    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(password=PASSWORD)
        stranger = LedgerKey(writer.ledger_id, b"")
        assert await statuses(cluster, writer, stranger) == {Status.UNAUTHORIZED}
        assert await writer.append(b"a") == 0
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        assert await payloads(reader) == [b"a"]

    on_bookies(tmp_path, 3, scenario)


def test_a_ledger_that_is_not_there_yet_cannot_be_claimed_or_fenced(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        first = await client.create_ledger()
        bookies = ConnectedBookies(cluster.store, QUICK)
        for bookie in first.record.fragments[0].ensemble:
            request = LacRequest(bookie.incarnation, first.ledger_id + 1, fence=True)
            assert (await bookies.last_add_confirmed(bookie, request)).status is Status.UNAUTHORIZED
        await bookies.close()
        async with await client.create_ledger(password=PASSWORD) as second:
            assert second.ledger_id == first.ledger_id + 1
            assert await second.append(b"mine") == 0
        await first.close()

    on_bookies(tmp_path, 3, scenario)


def test_bookies_refuse_a_verifier_without_its_proof(tmp_path: Path) -> None:
    """The verifier stands in the metadata for all to see."""

    class Claims(LedgerKey):
        def credential(self, purpose: Purpose, incarnation: str, nonce: bytes = b"") -> Credential:
            del purpose, incarnation, nonce
            return Credential(self.verifier, bytes(64))

    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(password=PASSWORD)
        await writer.append(b"a")
        assert await statuses(cluster, writer, Claims(writer.ledger_id, PASSWORD)) == {Status.UNAUTHORIZED}
        await writer.close()

    on_bookies(tmp_path, 3, scenario)


def test_a_proof_seen_on_one_stream_is_worth_nothing_on_another(tmp_path: Path) -> None:
    class Replays(LedgerKey):
        def credential(self, purpose: Purpose, incarnation: str, nonce: bytes = b"") -> Credential:
            return super().credential(purpose, incarnation, nonce and b"another nonce...")

    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(password=PASSWORD)
        await writer.append(b"a")
        assert Status.UNAUTHORIZED in await statuses(cluster, writer, Replays(writer.ledger_id, PASSWORD))

    on_bookies(tmp_path, 3, scenario)


def test_the_password_still_counts_after_the_bookies_restart(tmp_path: Path) -> None:
    """From the log, and after a checkpoint from the index."""

    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(password=PASSWORD)
        await writer.append(b"a")
        for name in ("b1", "b2", "b3"):
            await cluster.stop(name)
            await cluster.start(name)
        stranger = LedgerKey(writer.ledger_id, b"guess")
        assert await statuses(cluster, writer, stranger) == {Status.UNAUTHORIZED}
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        assert await payloads(reader) == [b"a"]

    on_bookies(tmp_path, 3, scenario)


def test_the_keys_are_neither_on_disk_nor_in_the_metadata(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster, client: LedgerClient) -> None:
        writer = await client.create_ledger(digest=DigestType.HMAC_SHA256, password=PASSWORD)
        await writer.append(b"a")
        await writer.close()
        key = LedgerKey(writer.ledger_id, PASSWORD)
        assert key._private is not None
        secrets = (PASSWORD, key._private.private_bytes_raw())
        await asyncio.gather(*(cluster.stop(name) for name in list(cluster.stacks)))
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        held = b"".join(path.read_bytes() for path in files)
        assert key.verifier in held
        assert not [secret for secret in secrets if secret in held]

    on_bookies(tmp_path, 3, scenario)
