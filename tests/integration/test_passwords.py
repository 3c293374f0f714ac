"""Ledgers with a password on real bookies: who may write, fence, read and delete, and what the key never does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from bookie.serving.lookups import registered_keys
from bookie.serving.lookups.verifiers import Verifiers
from bookie.wire import (
    NO_CREDENTIAL,
    AppendRequest,
    Credential,
    Frame,
    LacRequest,
    ReadReply,
    ReadRequest,
    ScanRequest,
    Status,
    codec,
    of_payloads,
)
from bookie.wire.credentials import BookieKey, Purpose
from bookie.wire.data.framing import FrameKind
from ledgers import DigestType, LedgerFenced, Unauthorized
from ledgers.aio import WriteHandle
from ledgers.bookies.connected_bookies import ConnectedBookies
from ledgers.bookies.dialing import address_of
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.integrity.stretching import SALT_BYTES, stretched
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata.audit import AUDIT
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.registration import Registration
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster, on_bookies, payloads
from tests.support.long_runs import first_then_long
from tests.support.raw_data import after_handshake

PASSWORD = b"correct horse battery staple"
Reply = TypeVar("Reply")
BOTH = pytest.mark.parametrize("digest", list(DigestType))


async def statuses(cluster: InProcessCluster, writer: WriteHandle, key: LedgerKey) -> set[Status]:
    """What the writer's bookies say to an append and to a fence of whoever holds this key, and knows the identity."""
    identity = writer.record.identity
    bookies = ConnectedBookies(cluster.store, QUICK)
    found: set[Status] = set()
    for bookie in writer.record.fragments[-1].ensemble:
        credential = key.credential(Purpose.FENCE, bookie.incarnation)
        request = LacRequest(
            bookie.incarnation, writer.ledger_id, fence=True, credential=credential, identity=identity
        )
        found.add((await bookies.last_add_confirmed(bookie, request)).status)
        async with after_handshake(await address_of(cluster.store, bookie)) as stream:
            credential = key.credential(Purpose.APPEND, bookie.incarnation, stream.welcome.nonce)
            frame = Frame(
                writer.ledger_id,
                of_payloads(0, [b"forged"], bytes(4)),
                credential=credential,
                identity=identity,
            )
            append = AppendRequest(bookie.incarnation, 0, (frame,))
            stream.send(FrameKind.APPEND, 0, codec.encode(append))
            acks = await stream.acks()
            assert acks is not None
            found.add(acks[0].status)
    await bookies.close()
    return found


@BOTH
async def test_a_ledger_with_a_password_is_written_recovered_and_read_by_who_knows_it(
    tmp_path: Path, digest: DigestType
) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await client.create_ledger(digest=digest, password=PASSWORD)
        assert await writer.append(b"a") == 0
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        assert await payloads(reader) == [b"a"]
        with pytest.raises(LedgerFenced):
            await writer.append(b"b")


@BOTH
@pytest.mark.parametrize("wrong", [b"", b"guess"])
async def test_a_client_with_the_wrong_password_is_refused_and_fences_nothing(
    tmp_path: Path, digest: DigestType, wrong: bytes
) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await client.create_ledger(digest=digest, password=PASSWORD)
        await writer.append(b"a")
        for recovery in (True, False):
            with pytest.raises(Unauthorized):
                await client.open_ledger(writer.ledger_id, recovery=recovery, password=wrong)
        assert await writer.append(b"b") == 1
        await writer.close()


class Claims(LedgerKey):
    """A verifier without its proof: it stands in the metadata for all to see."""

    def credential(self, purpose: Purpose, incarnation: str, nonce: bytes = b"") -> Credential:
        return Credential(self.verifier, bytes(64))


def secret_of(writer: WriteHandle) -> bytes:
    return stretched(PASSWORD, writer.record.password_salt)


STRANGERS: dict[str, Callable[[WriteHandle], LedgerKey]] = {
    "nobody": lambda writer: LedgerKey(writer.ledger_id, b""),
    "another password": lambda writer: LedgerKey(writer.ledger_id, b"guess"),
    "another ledger": lambda writer: LedgerKey(writer.ledger_id + 1, secret_of(writer)),
    "a verifier without its proof": lambda writer: Claims(writer.ledger_id, secret_of(writer)),
}


async def restart_all(cluster: InProcessCluster) -> None:
    for name in ("b1", "b2", "b3"):
        await cluster.stop(name)
        await cluster.start(name)


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
async def test_bookies_refuse_who_goes_around_the_client(
    tmp_path: Path, stranger: Callable[[WriteHandle], LedgerKey]
) -> None:
    """Neither appends nor fences: before the writer came, when a bookie asks the metadata whose the ledger is; beside
    it; and after a restart, from the log, or from the index after a checkpoint."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(password=PASSWORD)
        for n in range(2):
            assert await statuses(cluster, writer, stranger(writer)) == {Status.UNAUTHORIZED}
            assert await writer.append(b"%d" % n) == n
            await writer.flush()
        await restart_all(cluster)
        assert await statuses(cluster, writer, stranger(writer)) == {Status.UNAUTHORIZED}
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        assert await payloads(reader) == [b"0", b"1"]


async def test_a_ledger_that_is_not_there_yet_cannot_be_claimed_or_fenced(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
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


async def test_a_proof_seen_on_one_stream_is_worth_nothing_on_another(tmp_path: Path) -> None:
    class Replays(LedgerKey):
        def credential(self, purpose: Purpose, incarnation: str, nonce: bytes = b"") -> Credential:
            return super().credential(purpose, incarnation, nonce and b"another nonce...")

    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(password=PASSWORD)
        await writer.append(b"a")
        replayed = Replays(writer.ledger_id, secret_of(writer))
        assert Status.UNAUTHORIZED in await statuses(cluster, writer, replayed)


async def test_the_keys_are_neither_on_disk_nor_in_the_metadata(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(digest=DigestType.HMAC_SHA256, password=PASSWORD)
        await writer.append(b"a")
        await writer.close()
        secret = secret_of(writer)
        key = LedgerKey(writer.ledger_id, secret)
        assert key._private is not None
        secrets = (PASSWORD, secret, key._private.private_bytes_raw())
        await asyncio.gather(*(cluster.stop(name) for name in list(cluster.stacks)))
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        held = b"".join(path.read_bytes() for path in files)
        assert key.verifier in held
        assert not [secret for secret in secrets if secret in held]


# --- reading ----------------------------------------------------------------------------------


async def answers_to_reading(
    cluster: InProcessCluster, record: LedgerRecord, prove: Callable[[str], Credential]
) -> set[tuple[Status, int]]:
    """What each bookie says to a read and to a look at the LAC, with how many entries it gives."""
    found: set[tuple[Status, int]] = set()
    for bookie in record.fragments[-1].ensemble:
        credential = prove(bookie.incarnation)
        read = ReadRequest(
            bookie.incarnation,
            record.ledger_id,
            0,
            9,
            1 << 20,
            credential=credential,
            identity=record.identity,
        )
        page = await on_a_connection(cluster, lambda one: one.read(bookie, read))  # noqa: B023
        scan = ScanRequest(
            bookie.incarnation, record.ledger_id, 0, 9, 1 << 20, 1 << 20, credential, record.identity
        )
        scanned = await on_a_connection(cluster, lambda one: first_page(one.scan(bookie, scan)))  # noqa: B023
        assert (scanned.status, len(scanned.columns)) == (page.status, len(page.columns))
        look = LacRequest(
            bookie.incarnation, record.ledger_id, credential=credential, identity=record.identity
        )
        lac = await on_a_connection(cluster, lambda one: one.last_add_confirmed(bookie, look))  # noqa: B023
        assert (lac.last_add_confirmed is not None) <= (lac.status is Status.OK)
        found |= {(page.status, len(page.columns)), (lac.status, len(page.columns))}
    return found


async def first_page(scan: AsyncGenerator[ReadReply, None]) -> ReadReply:
    async with aclosing(scan):
        return await anext(scan)


async def on_a_connection(
    cluster: InProcessCluster, ask: Callable[[ConnectedBookies], Awaitable[Reply]]
) -> Reply:
    """Of its own: a false proof ends one."""
    bookies = ConnectedBookies(cluster.store, QUICK)
    try:
        return await ask(bookies)
    finally:
        await bookies.close()


@pytest.mark.parametrize("who", [*STRANGERS, "a key of its own", "for fencing"])
@pytest.mark.parametrize("restarted", first_then_long([True, False]))
async def test_bookies_give_entries_of_a_ledger_with_a_password_to_nobody_without_it(
    tmp_path: Path, who: str, restarted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        async with await client.create_ledger(password=PASSWORD) as writer:
            await writer.append(b"a")
        record, own = writer.record, writer.ledger_id
        if restarted:
            await restart_all(cluster)
        secret = secret_of(writer)
        prove: dict[str, Callable[[str], Credential]] = {
            name: partial(stranger(writer).credential, Purpose.READ) for name, stranger in STRANGERS.items()
        } | {
            "nobody": lambda _: NO_CREDENTIAL,
            "a key of its own": partial(BookieKey().credential, own),
            "for fencing": partial(LedgerKey(own, secret).credential, Purpose.FENCE),
        }
        with caplog.at_level(logging.INFO, AUDIT.name):
            assert await answers_to_reading(cluster, record, prove[who]) == {(Status.UNAUTHORIZED, 0)}
        assert "read: the ledger has a password" in caplog.text
        owner = partial(LedgerKey(own, secret).credential, Purpose.READ)
        assert await answers_to_reading(cluster, record, owner) == {(Status.OK, 1)}


async def test_who_waits_for_a_ledgers_first_entry_without_its_password_is_told_nothing(
    tmp_path: Path,
) -> None:
    """The question came before the bookie knew that there is a password."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(password=PASSWORD)
        bookie = writer.record.fragments[0].ensemble[0]
        bookies = ConnectedBookies(cluster.store, QUICK)
        identity = writer.record.identity
        request = LacRequest(
            bookie.incarnation, writer.ledger_id, wait_beyond=-1, wait_ms=20_000, identity=identity
        )
        waiting = asyncio.create_task(bookies.last_add_confirmed(bookie, request))
        waiters = cluster.running[bookie.bookie_id].bookie._lac_waiters

        async def waits() -> bool:
            return waiters.ledgers == 1

        await until_true(waits)
        await writer.append(b"a")
        await writer.append(b"b")  # brings the LAC
        reply = await waiting
        assert (reply.status, reply.last_add_confirmed) == (Status.UNAUTHORIZED, None)
        await bookies.close()


async def test_an_open_ledger_with_a_password_is_followed_by_who_knows_it(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        writer = await client.create_ledger(password=PASSWORD)
        await writer.append(b"a")
        await writer.append(b"b")
        reader = await client.open_ledger(writer.ledger_id, recovery=False, password=PASSWORD)
        assert bytes((await reader.read_entry(0)).payload) == b"a"
        await writer.close()


async def test_a_bookie_fetches_its_copy_of_a_ledger_with_a_password(tmp_path: Path) -> None:
    """It proves with the key of its registration that it is one; also after a restart, with another key."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        async with await client.create_ledger(password=PASSWORD) as writer:
            await writer.append(b"a")
        for _ in range(2):
            await cluster.stop("b1")
            await cluster.start("b1")
            me = BookieRef("b1", cluster.running["b1"].cookie.incarnation)
            peers = ClusterPeers(cluster.store, QUICK, key=cluster.keys["b1"])
            pages = peers.entries(writer.record, 0, 0, without=me)
            assert [bytes(row[1]) async for page in pages for row in page.rows()] == [b"a"]
            await peers.close()


async def test_a_bookie_that_is_registered_no_more_fetches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered_keys, "LOOK_SECONDS_MIN", 0.0)
    async with on_bookies(tmp_path, 3) as (cluster, client):
        async with await client.create_ledger(password=PASSWORD) as writer:
            await writer.append(b"a")
        key, record = BookieKey(), writer.record
        gone = Registration(BookieRef("b9", "i9"), "127.0.0.1:1", writable=False, reading_key=key.verifier)
        prove = partial(key.credential, writer.ledger_id)
        version = await cluster.store.create(gone.key, gone.encode())
        assert await answers_to_reading(cluster, record, prove) == {(Status.OK, 1)}
        await cluster.store.delete(gone.key, version)
        loop = asyncio.get_running_loop()
        later = staticmethod(lambda: loop.time() + registered_keys.KNOWN_SECONDS_MAX)
        monkeypatch.setattr(registered_keys.RegisteredKeys, "_now", later)
        assert await answers_to_reading(cluster, record, prove) == {(Status.UNAUTHORIZED, 0)}


async def test_after_a_restart_ledgers_are_read_without_asking_the_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log says of who may read is enough; who may write is looked up, for it may be deleted."""

    async def refused(self: Verifiers, ledger_ids: object) -> NoReturn:
        raise AssertionError(f"asked for {ledger_ids}")

    async with on_bookies(tmp_path, 3) as (cluster, client):
        async with (
            await client.create_ledger() as plain,
            await client.create_ledger(password=PASSWORD) as writer,
        ):
            await plain.append(b"a")
            await writer.append(b"b")
        await restart_all(cluster)
        for running in cluster.running.values():
            running.bookie.states.forget_new_verifiers()  # as of what is in no checkpoint
        monkeypatch.setattr(Verifiers, "refused", refused)
        assert await payloads(await client.open_ledger(plain.ledger_id)) == [b"a"]
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD)
        assert await payloads(reader) == [b"b"]


# --- stretched passwords -----------------------------------------------------------------------


async def test_a_password_is_stretched_with_the_records_salt(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (_, client):
        async with await client.create_ledger(password=PASSWORD) as writer:
            await writer.append(b"a")
        record = await client.describe_ledger(writer.ledger_id)
        assert len(record.password_salt) == SALT_BYTES
        secret = Scrypt(record.password_salt, 32, 2**15, 8, 3).derive(PASSWORD)
        assert record.verifier == LedgerKey(writer.ledger_id, secret).verifier
        assert record.verifier != LedgerKey(writer.ledger_id, PASSWORD).verifier
