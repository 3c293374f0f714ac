"""R7: a ledger whose end nobody can prove any more is closed where its survivors end, by an explicit word alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookie.index.local_ledger_state import Fence
from bookie.wire import ReadRequest
from bookie.wire.trust.roles import Role
from ledgers import (
    ClientConfig,
    DigestType,
    EntryUnreadable,
    LedgerClosed,
    LedgerError,
    LedgerFenced,
    LedgerRecord,
    LedgerRecoveryFailed,
    LedgerState,
    Unauthorized,
)
from ledgers.aio import LedgerClient, ReadHandle, WriteHandle
from ledgers.bookie_client import LaneTerms
from ledgers.integrity.digest import Crc32cDigester
from ledgers.integrity.ledger_keys import LedgerKey
from metadata import keys
from metadata.backup import hold
from metadata.healing import operator_requests
from metadata.healing.operator_requests import Order, OrderKind
from metadata.healing.presence import Presence
from metadata.records.ledger_record import BookieRef
from tests.support.aio import until_true
from tests.support.authority import TestAuthority
from tests.support.in_process import QUICK, InProcessCluster, cluster_of, on_bookies, payloads
from tests.support.lane_listener import Listener

SILENT = replace(QUICK, idle_lac_seconds=60)
"""A writer that tells its last-add-confirmed with entries only."""


async def appended(writer: WriteHandle, *numbers: int) -> None:
    for n in numbers:
        assert await writer.append(b"%d" % n) == n


async def written(client: LedgerClient, *numbers: int, **shape: Any) -> WriteHandle:
    writer = await client.create_ledger(**shape)
    await appended(writer, *numbers)
    return writer


async def everywhere(cluster: InProcessCluster, writer: WriteHandle, entry: int) -> None:
    """Waits until all bookies have the entry: an ack quorum has at once, the others a little later."""
    bookies = [one.bookie for one in cluster.running.values()]
    asked = writer.ledger_id, entry, entry, 1 << 20

    async def have_it() -> bool:
        told = [
            await b.read(ReadRequest(b.incarnation, *asked, identity=writer.record.identity)) for b in bookies
        ]
        return all(len(one.columns) == 1 for one in told)

    await until_true(have_it)


async def stop(cluster: InProcessCluster, *names: str) -> None:
    for name in names:
        await cluster.stop(name)


async def start(cluster: InProcessCluster, *names: str) -> None:
    for name in names:
        await cluster.start(name)


def names(bookies: tuple[BookieRef, ...]) -> list[str]:
    return sorted(str(bookie) for bookie in bookies)


async def accepted(client: LedgerClient, ledger_id: int) -> LedgerRecord:
    return await client.accept_loss(await client.assess_loss(ledger_id))


def fence_at(cluster: InProcessCluster, name: str, ledger_id: int) -> Fence:
    return cluster.running[name].bookie.states.peek(ledger_id).fence


async def test_R7_it_is_closed_where_the_survivors_end_and_the_record_says_so_for_ever(
    tmp_path: Path,
) -> None:
    """And whoever comes back with more changes nothing: neither what is read, nor for the old writer."""
    async with on_bookies(tmp_path, 3, SILENT) as (cluster, client):
        writer = await written(client, 0, 1, 2)
        await everywhere(cluster, writer, 2)
        await stop(cluster, "b1")
        await appended(writer, 3, 4)  # b2 and b3 alone
        await stop(cluster, "b2", "b3")
        await start(cluster, "b1")
        before = await client.describe_ledger(writer.ledger_id)
        assessment = await client.assess_loss(writer.ledger_id)
        assert await client.describe_ledger(writer.ledger_id) == before, "nothing is changed by looking"
        assert fence_at(cluster, "b1", writer.ledger_id) is Fence.NONE
        with pytest.raises(LedgerRecoveryFailed):
            await client.open_ledger(writer.ledger_id)

        assert (assessment.last_entry, assessment.confirmed_and_lost) == (2, 0)
        assert {str(one.bookie): one.presence for one in assessment.missing} == {
            "b2": Presence.AWAY,
            "b3": Presence.AWAY,
        }
        closed = await client.accept_loss(assessment)
        loss = closed.accepted_loss
        assert loss is not None
        assert (closed.state, closed.last_entry, closed.length_bytes) == (LedgerState.CLOSED, 2, 3)
        assert loss.proven_through == assessment.proven_through <= 2
        assert names(loss.missing) == names(loss.to_fence) == ["b2", "b3"]
        assert loss.by and loss.at is not None
        assert fence_at(cluster, "b1", writer.ledger_id) is Fence.DURABLE

        await start(cluster, "b2", "b3")
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"0", b"1", b"2"]
        await until_true(lambda: _all_fenced(client, writer.ledger_id))
        for name in ("b2", "b3"):
            assert fence_at(cluster, name, writer.ledger_id) is Fence.DURABLE
        with pytest.raises(LedgerError) as ended:
            await writer.append(b"late")
        assert isinstance(ended.value, LedgerFenced | LedgerClosed)
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"0", b"1", b"2"]
        record = await client.describe_ledger(writer.ledger_id)
        assert record.accepted_loss == replace(loss, to_fence=())


async def _all_fenced(client: LedgerClient, ledger_id: int) -> bool:
    loss = (await client.describe_ledger(ledger_id)).accepted_loss
    assert loss is not None
    return not loss.to_fence


ALONE = replace(SILENT, retry_replacement_seconds=3600)
"""A writer that looks for no replacement, and so for no change of its record."""


async def test_R7_a_writer_that_goes_on_with_those_who_were_cut_off_is_fenced_when_they_are_back(
    tmp_path: Path,
) -> None:
    """They and their writer were on the other side of a network that failed, and never stopped."""
    async with on_bookies(tmp_path, 3, ALONE) as (cluster, client):
        writer = await written(client, 0, 1)
        await everywhere(cluster, writer, 1)
        await stop(cluster, "b1")
        await appended(writer, 2)
        await start(cluster, "b1")
        for name in ("b2", "b3"):
            found = await cluster.store.get(keys.bookie(name))
            assert found is not None
            await cluster.store.delete(found.key, found.version)
        async with LedgerClient(cluster.uri, config=QUICK) as operator:
            assert (await accepted(operator, writer.ledger_id)).last_entry == 1
            await appended(writer, 3)  # nobody can keep it from that
            for name in ("b2", "b3"):
                await cluster.running[name].registrar.take()
            await until_true(lambda: _all_fenced(operator, writer.ledger_id))
            with pytest.raises(LedgerFenced):
                await writer.append(b"4")
            assert await payloads(await operator.open_ledger(writer.ledger_id)) == [b"0", b"1"]


async def test_what_survives_is_copied_to_other_bookies(tmp_path: Path) -> None:
    """Once the lost ones are given up; the record keeps how it was closed."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, *range(5))
        await everywhere(cluster, writer, 4)
        await writer.abandon()
        await start(cluster, "b4", "b5")
        await stop(cluster, "b2", "b3")
        closed = await accepted(client, writer.ledger_id)
        for name in ("b2", "b3"):
            await operator_requests.give(cluster.store, Order(name, OrderKind.GIVEN_UP, 0))

        async def is_whole() -> bool:
            (fragment,) = (await client.describe_ledger(writer.ledger_id)).fragments
            return names(fragment.ensemble) == ["b1", "b4", "b5"] and not fragment.lacking

        await until_true(is_whole)
        await stop(cluster, "b1")
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"%d" % n for n in range(5)]
        assert (await client.describe_ledger(writer.ledger_id)).accepted_loss == closed.accepted_loss


async def test_R7_it_is_refused_where_the_end_can_be_proven(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, 0)
        await stop(cluster, "b3")
        with pytest.raises(LedgerError, match=f"use `bookledger ledger recover {writer.ledger_id}`"):
            await client.assess_loss(writer.ledger_id)
        await stop(cluster, "b2")
        assessment = await client.assess_loss(writer.ledger_id)
        await start(cluster, "b3")
        with pytest.raises(LedgerError, match="need be accepted: enough of its bookies answer"):
            await client.accept_loss(assessment)
        reader = await client.open_ledger(writer.ledger_id)
        assert (reader.last_add_confirmed, reader.record.accepted_loss) == (0, None)
        with pytest.raises(LedgerClosed, match="its end is final"):
            await client.assess_loss(writer.ledger_id)
        assert (await client.accept_loss(assessment)).accepted_loss is None


async def test_R7_no_more_is_given_up_than_was_told(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 5) as (cluster, client):
        writer = await written(client, 0, 1, ensemble_size=5)
        await everywhere(cluster, writer, 1)
        await stop(cluster, "b3", "b4", "b5")
        assessment = await client.assess_loss(writer.ledger_id)
        await stop(cluster, "b2")
        with pytest.raises(LedgerRecoveryFailed, match=r"than was reported \(no answer now from b2\)"):
            await client.accept_loss(assessment)
        assert (await client.describe_ledger(writer.ledger_id)).state is LedgerState.IN_RECOVERY
        assert names(tuple(one.bookie for one in assessment.missing)) == ["b3", "b4", "b5"]
        await start(cluster, "b2")
        assert (await client.accept_loss(assessment)).last_entry == 1


async def test_R7_no_more_confirmed_entries_are_given_up_than_was_told(tmp_path: Path) -> None:
    """While the operator was asked, a survivor heard of confirmed entries that it lacks; the record says how many."""
    async with on_bookies(tmp_path, 3, SILENT) as (cluster, client):
        writer = await written(client, *range(4))
        await everywhere(cluster, writer, 3)
        await stop(cluster, "b2", "b3")
        assessment = await client.assess_loss(writer.ledger_id)
        assert (assessment.last_entry, assessment.confirmed_and_lost) == (3, 0)
        await tell_lac(cluster, client, "b1", writer.record, 6)
        with pytest.raises(
            LedgerRecoveryFailed, match=r"reported \(entry 6 is now proven, and the survivors end at entry 3"
        ):
            await client.accept_loss(assessment)
        assert (await client.describe_ledger(writer.ledger_id)).state is LedgerState.IN_RECOVERY
        again = await client.assess_loss(writer.ledger_id)
        assert (again.proven_through, again.last_entry, again.confirmed_and_lost) == (6, 3, 3)
        closed = await client.accept_loss(again)
        assert closed.accepted_loss is not None
        assert (closed.accepted_loss.proven_through, closed.last_entry, closed.length_bytes) == (6, 3, 4)
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"0", b"1", b"2", b"3"]


async def test_R7_two_operators_at_once_close_it_once(tmp_path: Path) -> None:
    """Both are given the one closed record, which has the word of the first."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, 0, 1)
        await writer.abandon()
        await stop(cluster, "b2", "b3")
        async with LedgerClient(cluster.uri, config=QUICK) as other:
            assessments = [await one.assess_loss(writer.ledger_id) for one in (client, other)]
            closed = await asyncio.gather(
                client.accept_loss(assessments[0]), other.accept_loss(assessments[1])
            )
            assert closed[0] == closed[1] == await other.describe_ledger(writer.ledger_id)


async def test_R7_whoever_would_have_kept_more_is_given_what_another_has_closed(tmp_path: Path) -> None:
    """And the other way around: what was told is not what the ledger ends with."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, 0)
        await everywhere(cluster, writer, 0)
        await stop(cluster, "b1")
        await appended(writer, 1, 2)
        await writer.abandon()
        await stop(cluster, "b3")
        more = await client.assess_loss(writer.ledger_id)
        assert more.last_entry == 2
        await stop(cluster, "b2")
        await start(cluster, "b1")
        async with LedgerClient(cluster.uri, config=QUICK) as other:
            less = await accepted(other, writer.ledger_id)
        assert less.last_entry == 0
        assert await client.accept_loss(more) == less


async def test_R7_nothing_is_accepted_while_the_metadata_is_an_older_copy(tmp_path: Path) -> None:
    """Nor asked: it may name bookies that were replaced since, and others have the entries."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, 0)
        await everywhere(cluster, writer, 0)
        await writer.abandon()
        await stop(cluster, "b2", "b3")
        assessment = await client.assess_loss(writer.ledger_id)
        await hold.begin(cluster.store, backup_ms=0, now_ms=1)
        with pytest.raises(LedgerRecoveryFailed, match="metadata check"):
            await client.assess_loss(writer.ledger_id)
        with pytest.raises(LedgerRecoveryFailed, match="metadata check"):
            await client.accept_loss(assessment)
        assert await client.describe_ledger(writer.ledger_id) == writer.record
        assert fence_at(cluster, "b1", writer.ledger_id) is Fence.NONE
        await hold.accept(cluster.store)
        assert (await client.accept_loss(assessment)).last_entry == 0


async def test_R7_a_password_is_asked_for_and_whoever_comes_back_needs_none(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, 0, 1, password=b"secret", digest=DigestType.HMAC_SHA256)
        await everywhere(cluster, writer, 1)
        await writer.abandon()
        await stop(cluster, "b2", "b3")
        for wrong in (b"", b"another"):
            with pytest.raises(Unauthorized):
                await client.assess_loss(writer.ledger_id, password=wrong)
        assessment = await client.assess_loss(writer.ledger_id, password=b"secret")
        with pytest.raises(Unauthorized):
            await client.accept_loss(assessment, password=b"another")
        assert await client.describe_ledger(writer.ledger_id) == writer.record
        assert (await client.accept_loss(assessment, password=b"secret")).last_entry == 1
        await start(cluster, "b2", "b3")
        await until_true(lambda: _all_fenced(client, writer.ledger_id))
        reader = await client.open_ledger(writer.ledger_id, password=b"secret")
        assert await payloads(reader) == [b"0", b"1"]


async def tell_lac(
    cluster: InProcessCluster, client: LedgerClient, name: str, record: LedgerRecord, last: int
) -> None:
    """A frame of a copy that is behind: it says that more is confirmed than has come there."""
    (bookie,) = [one for one in record.fragments[-1].ensemble if one.bookie_id == name]
    signed = Crc32cDigester(record.ledger_id).sign_lac(last, last + 1)
    terms = LaneTerms(record.ledger_id, LedgerKey(record.ledger_id, b""), identity=record.identity)
    bookies, listener = (await client._connected()).bookies, Listener()
    lane = bookies.open_lane(bookie, terms, listener, lambda: signed)
    lane.send_lac()

    async def is_there() -> bool:
        statement = cluster.running[name].bookie.states.peek(record.ledger_id).last_add_confirmed
        return statement is not None and statement.last_entry == last

    await until_true(is_there)
    assert listener.heard == []
    lane.close()


async def test_of_a_striped_ledger_what_is_lost_before_its_end_stays_a_hole(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, *range(9), write_quorum=2, ack_quorum=2)
        _, *others = [str(bookie) for bookie in writer.record.fragments[0].ensemble]
        reader = await client.open_ledger(writer.ledger_id, recovery=False)
        await until_true(lambda: _is_told(reader, 8))
        await writer.abandon()
        await stop(cluster, *others)
        assessment = await client.assess_loss(writer.ledger_id)
        assert (assessment.last_entry, assessment.unreadable) == (8, 3)  # 1, 4, 7
        closed = await client.accept_loss(assessment)
        assert closed.last_entry == 8  # it is proven, and the first position has it
        reader = await client.open_ledger(writer.ledger_id)
        assert (await reader.read_entry(8)).payload == b"8"
        with pytest.raises(EntryUnreadable):
            await reader.read_entry(7)
        await start(cluster, *others)
        assert await payloads(reader) == [b"%d" % n for n in range(9)]


async def _is_told(reader: ReadHandle, last: int) -> bool:
    return await reader.read_last_add_confirmed() >= last


async def test_where_a_striped_ledger_has_a_hole_that_nobody_can_prove_it_ends_and_says_so(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 3, SILENT) as (cluster, client):
        writer = await client.create_ledger(write_quorum=2, ack_quorum=2)
        await asyncio.gather(
            *(writer.append(b"%d" % n) for n in range(6))
        )  # one batch: nobody is told its end
        await writer.abandon()
        _, *others = [str(bookie) for bookie in writer.record.fragments[0].ensemble]
        await stop(cluster, *others)
        assessment = await client.assess_loss(writer.ledger_id)
        assert (assessment.proven_through, assessment.last_entry) == (-1, 0)  # the survivor has 0, 2, 3, 5
        assert assessment.behind.startswith("entry 1: ")
        assert all(f"{name}: " in assessment.behind for name in others)
        closed = await client.accept_loss(assessment)
        assert closed.last_entry == 0
        await start(cluster, *others)
        reader = await client.open_ledger(writer.ledger_id)
        assert await payloads(reader) == [b"0"]


async def test_where_nobody_of_the_last_ensemble_is_left_all_that_is_proven_by_the_record_stays(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await written(client, 0, 1, ensemble_size=2, ack_quorum=2)
        (fragment,) = writer.record.fragments
        await stop(cluster, str(fragment.ensemble[1]))
        await appended(writer, 2)  # on another one
        last = writer.record.fragments[1].ensemble
        await writer.abandon()  # it would go on with the bookie that comes back
        await stop(cluster, *map(str, last))
        await start(cluster, str(fragment.ensemble[1]))
        closed = await accepted(client, writer.ledger_id)
        assert (closed.last_entry, closed.fragments, closed.length_bytes) == (1, (fragment,), 2)
        assert await payloads(await client.open_ledger(writer.ledger_id)) == [b"0", b"1"]


async def test_R7_only_an_admin_accepts_a_loss_where_there_are_certificates(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)

    def config(role: Role) -> ClientConfig:
        return replace(QUICK, certificates=str(authority.of(role)))

    async with (
        cluster_of(tmp_path, 3, authority.bookie) as cluster,
        LedgerClient(cluster.uri, config=config(Role.ADMIN)) as admin,
        LedgerClient(cluster.uri, config=config(Role.CLIENT)) as client,
    ):
        writer = await written(client, 0)
        await writer.abandon()
        await stop(cluster, "b2", "b3")
        assessment = await admin.assess_loss(writer.ledger_id)
        why = "may not close a ledger whose end cannot be proven: that takes a certificate of role admin"
        with pytest.raises(Unauthorized, match=why):
            await client.assess_loss(writer.ledger_id)
        with pytest.raises(Unauthorized, match=why):
            await client.accept_loss(assessment)
        closed = await admin.accept_loss(assessment)
        assert closed.accepted_loss is not None
        assert "admin" in closed.accepted_loss.by
