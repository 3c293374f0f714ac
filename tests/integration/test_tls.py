"""A cluster whose bookies and clients have certificates: everything works as in plain text, and nothing without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bookie.wire.credentials import BookieKey
from bookie.wire.trust.roles import Role
from ledgers import ClientConfig, LedgerError, NewLedger, NotAllowed, NotEnoughBookies, Unauthorized
from ledgers.aio import LedgerClient
from ledgers.config import PLAIN_TEXT
from ledgers.errors import BookieUnavailable
from metadata.records.ledger_record import BookieRef, LedgerState
from tests.support.aio import until_true
from tests.support.authority import TestAuthority
from tests.support.in_process import QUICK, InProcessCluster, cluster_of, payloads, peers_with

ENTRIES = [b"entry %d" % n for n in range(200)]

Scenario = Callable[[InProcessCluster, TestAuthority], Awaitable[None]]


def config_of(directory: Path | None) -> ClientConfig:
    return replace(QUICK, certificates=str(directory) if directory else PLAIN_TEXT)


@asynccontextmanager
async def on_tls_bookies(
    tmp_path: Path, bookies: int = 3
) -> AsyncIterator[tuple[InProcessCluster, TestAuthority]]:
    authority = TestAuthority(tmp_path)
    async with cluster_of(tmp_path, bookies, authority.bookie) as cluster:
        yield cluster, authority


async def test_ledgers_are_written_followed_recovered_and_read_over_tls(tmp_path: Path) -> None:
    async with on_tls_bookies(tmp_path) as (cluster, authority):
        mine = config_of(authority.of(Role.CLIENT))
        async with LedgerClient(cluster.uri, config=mine) as client:
            writer = await client.create_ledger(ack_quorum=2)
            for payload in ENTRIES:
                await writer.append_async(payload)
            large = bytes(900_000)
            await writer.append(large)
            follower = await client.open_ledger(writer.ledger_id, recovery=False)
            async with aclosing(follower.tail()) as entries:
                assert (await anext(entries)).payload == ENTRIES[0]
            reader = await client.open_ledger(writer.ledger_id)
            assert await payloads(reader) == [*ENTRIES, large]


async def test_a_bookie_fetches_what_it_lacks_from_others_over_tls(tmp_path: Path) -> None:
    async with on_tls_bookies(tmp_path) as (cluster, authority):
        async with LedgerClient(cluster.uri, config=config_of(authority.of(Role.CLIENT))) as client:
            async with await client.create_ledger(ack_quorum=2) as writer:
                await writer.append(b"a")
            record = writer.record
        peers = peers_with(authority.bookie("b1"))(cluster.store, BookieKey())
        me = BookieRef("b1", cluster.running["b1"].cookie.incarnation)
        async with aclosing(peers.entries(record, 0, 0, without=me)) as pages:
            assert [bytes(row[1]) async for page in pages for row in page.rows()] == [b"a"]
        await peers.close()


async def test_a_reader_may_read_what_is_confirmed_and_neither_append_nor_fence(tmp_path: Path) -> None:
    async with (
        on_tls_bookies(tmp_path) as (cluster, authority),
        LedgerClient(cluster.uri, config=config_of(authority.of(Role.CLIENT))) as client,
        LedgerClient(cluster.uri, config=config_of(authority.of(Role.READER))) as reading,
    ):
        writer = await client.create_ledger()
        await writer.append(b"a")
        await writer.close()
        assert await payloads(await reading.open_ledger(writer.ledger_id)) == [b"a"]
        with pytest.raises(NotAllowed, match="reader:someone may not append entries"):
            await reading.create_ledger()
        reserved = await client.reserve_ledger(NewLedger())
        with pytest.raises(Unauthorized, match="reader:someone may not append entries"):
            await reading.claim_ledger(reserved)
        open_one = await client.create_ledger()
        await open_one.append(b"b")
        with pytest.raises(LedgerError, match="reader:someone may not fence a ledger"):
            await reading.open_ledger(open_one.ledger_id)
        assert await (await client.open_ledger(open_one.ledger_id)).read_last_add_confirmed() == 0


async def test_certificates_are_renewed_without_a_failed_append_or_a_restart(tmp_path: Path) -> None:
    async with on_tls_bookies(tmp_path) as (cluster, authority):
        mine = authority.of(Role.CLIENT)
        async with LedgerClient(cluster.uri, config=config_of(mine)) as client:
            writer = await client.create_ledger(ack_quorum=3)
            count = 0
            for directory in (mine, *(authority.bookie(name) for name in cluster.running)):
                authority.authority.renew(directory, 1)
                await writer.append(b"%d" % count)
                count += 1
            async with LedgerClient(cluster.uri, config=config_of(mine)) as newer:  # greets with the new ones
                other = await newer.create_ledger(ack_quorum=3)
                await other.append(b"new")
            await writer.append(b"old")
            assert len(writer.record.fragments) == 1
            assert writer.last_add_confirmed == count


async def test_who_answers_in_the_place_of_a_bookie_is_found_out(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    wrong = {
        "b1": authority.of(Role.CLIENT, "b1"),
        "b2": authority.bookie("b3"),
        "b3": authority.bookie("b3"),
    }
    async with (
        cluster_of(tmp_path, 3, wrong.__getitem__) as cluster,
        LedgerClient(cluster.uri, config=config_of(authority.of(Role.CLIENT))) as client,
    ):
        told = {}
        for registration in await client.list_bookies():
            try:
                await client.bookie_info(registration.bookie)
            except BookieUnavailable as error:
                told[registration.bookie.bookie_id] = error.why
        assert told.keys() == {"b1", "b2"}
        assert "its certificate names client:b1, not bookie:b1" in told["b1"]
        assert "its certificate names bookie:b3, not bookie:b2" in told["b2"]


async def test_a_client_without_certificates_is_told_that_it_needs_some(tmp_path: Path) -> None:
    async with (
        on_tls_bookies(tmp_path, bookies=1) as (cluster, _),
        LedgerClient(cluster.uri, config=config_of(None)) as client,
    ):
        (first, *_) = await client.list_bookies()
        with pytest.raises(BookieUnavailable, match="BOOKLEDGER_CERTS"):
            await client.bookie_info(first.bookie)


async def test_a_client_with_certificates_speaks_no_plain_text(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    async with (
        cluster_of(tmp_path, 1) as cluster,
        LedgerClient(cluster.uri, config=config_of(authority.of(Role.CLIENT))) as client,
    ):
        (only,) = await client.list_bookies()
        with pytest.raises(BookieUnavailable, match="cannot connect"):
            await client.bookie_info(only.bookie)
        with pytest.raises(NotEnoughBookies):
            await (await client.create_ledger(ensemble_size=1)).append(b"never in the open")


async def test_certificates_that_cannot_be_used_are_an_error_of_the_client_and_leak_nothing(
    tmp_path: Path,
) -> None:
    async with on_tls_bookies(tmp_path, bookies=1) as (cluster, _):
        with pytest.raises(LedgerError, match=r"certificates in .*nowhere cannot be used"):
            async with LedgerClient(cluster.uri, config=config_of(tmp_path / "nowhere")):
                pass


async def test_a_bookie_that_stops_ends_its_tls_connections_in_time(tmp_path: Path) -> None:
    async with (
        on_tls_bookies(tmp_path) as (cluster, authority),
        LedgerClient(cluster.uri, config=config_of(authority.of(Role.CLIENT))) as client,
    ):
        writer = await client.create_ledger(ack_quorum=2)
        await writer.append(b"a")
        loop = asyncio.get_running_loop()
        began = loop.time()
        await cluster.stop("b1")
        assert loop.time() - began < 8
        await writer.append(b"b")
        await cluster.start("b1")

        async def is_back() -> bool:
            return len(await client.list_bookies()) == 3

        await until_true(is_back)


async def test_a_client_that_is_confined_to_an_owners_ledgers_uses_those_and_no_others(
    tmp_path: Path,
) -> None:
    async with on_tls_bookies(tmp_path) as (cluster, authority):

        def client(role: Role, owner: str) -> LedgerClient:
            return LedgerClient(cluster.uri, config=config_of(authority.of(role, owner=owner)))

        async with (
            client(Role.CLIENT, "") as everybody,
            client(Role.CLIENT, "team-a") as ours,
            client(Role.CLIENT, "team-b") as others,
            client(Role.READER, "team-a") as reader,
        ):
            async with await ours.create_ledger() as writer:
                await writer.append(b"a")
            assert writer.record.custom_metadata == {"owner": b"team-a"}
            for mine in (everybody, ours, reader):
                assert await payloads(await mine.open_ledger(writer.ledger_id)) == [b"a"]
            for recovery in (True, False):
                with pytest.raises(Unauthorized, match="it does not belong to 'team-b'"):
                    await others.open_ledger(writer.ledger_id, recovery=recovery)
            for force in (True, False):
                with pytest.raises(Unauthorized, match="it does not belong to 'team-b'"):
                    await others.delete_ledger(writer.ledger_id, force=force)
            live = await everybody.create_ledger(custom_metadata={"owner": b"team-a/billing"})
            await live.append(b"b")
            with pytest.raises(Unauthorized, match="team-b"):
                await others.open_ledger(live.ledger_id)
            with pytest.raises(Unauthorized, match="may not fence a ledger"):
                await reader.open_ledger(live.ledger_id)
            assert await live.append(b"c") == 1, "nobody has fenced it"
            assert (await everybody.describe_ledger(live.ledger_id)).state is LedgerState.OPEN
            reserved = await everybody.reserve_ledger(NewLedger(custom_metadata={"owner": b"team-a"}))
            for nobody in (others, reader):
                with pytest.raises(Unauthorized):
                    await nobody.claim_ledger(reserved)
            assert (await everybody.describe_ledger(reserved)).reserved
            recovered = await ours.open_ledger(live.ledger_id)
            assert await payloads(recovered) == [b"b", b"c"]
            with pytest.raises(ValueError, match="names an owner"):
                await ours.create_ledger(custom_metadata={"owner": b"team-b"})
