"""Leaders on real stores: hand-overs between processes, and the log's fence that catches who noticed nothing.

L7: terms have rising tokens, and a log that was taken over under one refuses the leader of an earlier one. That a term
is over by its own clock before its lease is: ledgers/elections/test_leading.py.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from ledgers import LedgerClient as BlockingClient
from ledgers import LogFenced
from ledgers.aio import LedgerClient
from ledgers.elections.errors import LeadershipLost
from metadata import keys, open_store
from tests.support.aio import run
from tests.support.etcd import EtcdServer
from tests.support.in_process import QUICK, InProcessCluster

LEASE_SECONDS = 2.0

LEADER = """
import sys
from ledgers import LedgerClient
with LedgerClient(sys.argv[1]) as client, client.election("scheduler").lead(lease_seconds=2) as term:
    print(term.token, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["sqlite", "etcd"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "etcd":
        server: EtcdServer = request.getfixturevalue("etcd")
        return f"etcd://{server.endpoint}/leading-{uuid4().hex}"
    found = f"sqlite://{tmp_path}/metadata.db"

    async def made() -> None:
        await (await open_store(found, create=True)).close()

    run(made())
    return found


@pytest.fixture
def leader(uri: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, which leads until its standard input ends."""
    command = [sys.executable, "-c", LEADER, uri]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        yield process
        process.kill()


async def test_L7_a_leader_that_noticed_nothing_is_refused_by_the_log_that_a_later_one_has_taken_over(
    cluster: InProcessCluster,
) -> None:
    async with (
        LedgerClient(cluster.uri, config=QUICK) as old_client,
        LedgerClient(cluster.uri, config=QUICK) as new_client,
        old_client.election("scheduler").lead("old", lease_seconds=60) as old_term,
    ):
        old_log = await old_client.log("orders", create=True)
        old = await old_log.writer("old", term=old_term)
        assert await old.append(b"by the first") == 0
        (place,) = (await cluster.store.list_page(keys.CANDIDATES)).items
        await cluster.store.delete(place.key, place.version)
        async with new_client.election("scheduler").lead("new") as new_term:
            new_log = await new_client.log("orders")
            new = await new_log.writer("new", term=new_term)
            assert await new.append(b"by the second") == 1
            old_term.check()  # it knows nothing
            with pytest.raises(LogFenced):
                await old.append(b"too late")
            with pytest.raises(LogFenced, match=r"\(new, term 2 of election 'scheduler', epoch 2\)"):
                await old_log.writer("old", term=old_term)
            assert await new.append(b"goes on") == 2
            await new.close()
        assert [record.payload async for record in new_log.read()] == [
            b"by the first",
            b"by the second",
            b"goes on",
        ]


async def test_a_leader_may_take_its_log_over_again_also_from_a_writer_without_a_term(
    cluster: InProcessCluster,
) -> None:
    async with LedgerClient(cluster.uri, config=QUICK) as client:
        log = await client.log("orders", create=True)
        async with client.election("scheduler").lead() as term:
            async with await log.writer(term=term) as writer:
                await writer.append(b"0")
            async with await log.writer("an operator") as writer:
                await writer.append(b"1")
            async with await log.writer(term=term) as writer:
                await writer.append(b"2")
            assert (log.record.election, log.record.token) == ("scheduler", 1)
        with pytest.raises(
            LeadershipLost, match="term 1 of election 'scheduler' is over: the leader has left"
        ):
            await log.writer(term=term)
        async with client.election("another").lead() as term, await log.writer(term=term) as writer:
            await writer.append(b"3")
        assert (log.record.election, log.record.token) == ("another", 1)
        assert [record.payload async for record in log.read()] == [b"0", b"1", b"2", b"3"]


def test_blocking_programs_lead_in_turns_and_are_told_when_their_term_is_over(uri: str) -> None:
    with BlockingClient(uri) as first, BlockingClient(uri) as second:
        told = threading.Event()
        with first.election("scheduler").lead("first", lease_seconds=LEASE_SECONDS) as term:
            assert (term.token, term.leader, term.election) == (1, "first", "scheduler")
            term.check()
            term.on_lost(told.set)
            leader = second.election("scheduler").leader()
            assert leader is not None
            assert leader.leader == "first"
            with pytest.raises(TimeoutError), second.election("scheduler").lead(timeout=0.2):
                pass
            assert not term.lost.is_set()
        assert term.lost.is_set()
        with pytest.raises(LeadershipLost, match="the leader has left"):
            term.check()
        assert not told.is_set()
        with second.election("scheduler").lead() as later:
            assert later.token == 2


def test_a_blocking_leader_whose_place_is_taken_away_is_called_back(uri: str) -> None:
    async def taken_away() -> None:
        store = await open_store(uri)
        (place,) = (await store.list_page(keys.CANDIDATES)).items
        await store.delete(place.key, place.version)
        await store.close()

    with BlockingClient(uri) as client:
        told = threading.Event()
        with client.election("scheduler").lead(lease_seconds=LEASE_SECONDS) as term:
            term.on_lost(told.set)
            run(taken_away())
            assert term.lost.wait(60)
            assert told.wait(60)
            assert term.why_lost == "its key was deleted or changed, or the metadata went back"


def test_a_blocking_client_that_is_closed_has_left_what_it_led(uri: str) -> None:
    with (
        BlockingClient(uri) as client,
        BlockingClient(uri) as other,
        client.election("scheduler").lead(lease_seconds=60) as term,
    ):
        client.close()
        assert term.lost.wait(60)
        with other.election("scheduler").lead(timeout=60) as next_term:
            assert next_term.token == 2


def test_L7_the_next_process_leads_once_the_leader_leaves(uri: str, leader: subprocess.Popen[str]) -> None:
    with BlockingClient(uri) as client:
        with pytest.raises(TimeoutError), client.election("scheduler").lead(timeout=0.2):
            pass
        assert leader.stdin is not None
        leader.stdin.close()
        with client.election("scheduler").lead(timeout=60) as term:
            assert term.token == 2
    assert leader.wait(60) == 0


def test_L7_the_next_process_leads_within_the_lease_of_one_that_was_killed(
    uri: str, leader: subprocess.Popen[str]
) -> None:
    with BlockingClient(uri) as client:
        leader.kill()
        began = time.monotonic()
        with client.election("scheduler").lead(timeout=60) as term:
            assert term.token == 2
            assert time.monotonic() - began > LEASE_SECONDS / 3, "not before its lease ran out"
