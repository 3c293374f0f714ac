"""`bookledger cluster`, `bookie drain` and `ledger check`: what an operator sees, and what comes of what he orders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.child import Child
from bookledger.cli.processes import BOOKLEDGER, BookieProcess, bookie_processes
from ledgers import LedgerClient
from metadata import keys, open_store, opened_store
from metadata.healing import operator_requests
from metadata.healing.operator_requests import Order, OrderKind
from metadata.records.ledger_record import LedgerRecord
from tests.support.aio import run
from tests.support.command_line import bookledger, fails_with_one_line, printed, succeeds, told
from tests.support.stopping import line_with, started
from tests.support.waiting import until


@contextmanager
def cluster(tmp_path: Path, count: int) -> Iterator[tuple[str, dict[str, BookieProcess]]]:
    """The metadata option, and the bookies by name; one closed ledger of 100 entries is there."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(count, tmp_path, uri, lease_seconds=2) as bookies:
        with LedgerClient(uri) as client, client.create_ledger(ensemble_size=3, ack_quorum=2) as writer:
            for _ in range(100):
                writer.append_async(b"x" * 100)
        yield f"--metadata={uri}", {bookie.bookie_id: bookie for bookie in bookies}


def status(meta: str) -> dict[str, Any]:
    """Also of a cluster that is not whole, which its exit code says."""
    done = bookledger("cluster", "status", meta, "--json")
    assert done.stderr == b"", done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ensemble(meta: str) -> list[str]:
    with LedgerClient(meta.removeprefix("--metadata=")) as client:
        record: LedgerRecord = client.describe_ledger(1)
    return [bookie.bookie_id for bookie in record.fragments[0].ensemble]


def takes_entries(meta: str, name: str) -> bool:
    with LedgerClient(meta.removeprefix("--metadata=")) as client:
        return any(one.writable for one in client.list_bookies() if one.bookie.bookie_id == name)


def test_a_dead_bookie_makes_the_cluster_not_whole_until_it_is_given_up_copied_and_forgotten(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path, 4) as (meta, bookies):
        until(lambda: status(meta)["whole"])
        done = bookledger("cluster", "status", meta)
        assert done.returncode == 0 and b": whole" in done.stdout and b"1 whole" in done.stdout
        dead = ensemble(meta)[0]
        line = fails_with_one_line("cluster", "decommission", "--yes", meta, dead)
        assert line == f"bookie {dead} is alive: stop it first, or use `bookledger bookie drain {dead}`"
        bookies[dead].kill()
        until(lambda: not status(meta)["whole"])
        done = bookledger("cluster", "status", meta)
        assert done.returncode == 1 and b"NOT WHOLE" in done.stdout
        seen = status(meta)
        states = {row["bookie_id"]: row["state"] for row in seen["bookies"]}
        assert states[dead] == "away" and len(states) == 4
        assert (seen["fragments"], seen["under_replicated_ledgers"]) == ({"away": 1}, 1)
        row = told("cluster", "ledgers", "--under-replicated", meta)
        assert row["ledger_id"] == 1 and f"{dead} from entry 0: away" in row["first_of_them"]
        rows = printed("ledger", "check", meta, "1", code=1)
        assert {row["bookie_id"]: row["copy"] for row in rows}[dead] == "away"
        assert bookledger("ledger", "check", meta, "1").returncode == 1
        done = bookledger("cluster", "decommission", "--yes", "--wait", meta, dead)
        assert done.returncode == 0, done
        assert f"nothing refers to {dead} now: it is forgotten".encode() in done.stdout
        assert dead not in ensemble(meta)
        assert dead not in [row["bookie_id"] for row in printed("cluster", "bookies", meta)]
        until(lambda: status(meta)["whole"])
        assert bookledger("ledger", "check", meta, "1").returncode == 0


async def test_a_cluster_whose_bookies_live_and_take_nothing_is_not_whole(tmp_path: Path) -> None:
    """Whoever looks is told why, and what to do."""
    with cluster(tmp_path, 3) as (meta, bookies):
        until(lambda: status(meta)["whole"])
        given_up, lost, _ = sorted(bookies)
        async with opened_store(meta.removeprefix("--metadata=")) as store:
            await operator_requests.give(store, Order(given_up, OrderKind.GIVEN_UP, 0))
            cookie = await store.get(keys.cookie(lost))
            assert cookie is not None
            await store.delete(cookie.key, cookie.version)
        seen = status(meta)
        assert [why for why in seen["why_not_whole"] if f"stored on it: {given_up}; `bookledger" in why]
        assert [why for why in seen["why_not_whole"] if f"a restart would fail: {lost}" in why]
        done = bookledger("cluster", "status", meta)
        assert done.returncode == 1 and b"decommission NAME --cancel" in done.stdout


def test_a_bookie_that_came_back_is_not_forgotten_while_it_lives(tmp_path: Path) -> None:
    """It would go on taking entries, and never start again."""
    with cluster(tmp_path, 4) as (meta, bookies):
        dead = ensemble(meta)[1]
        bookies[dead].kill()
        until(lambda: dead not in living(meta))
        assert bookledger("cluster", "decommission", "--yes", meta, dead).returncode == 0
        bookies[dead].start()
        until(lambda: dead in living(meta))
        until(lambda: dead not in ensemble(meta))
        line = fails_with_last_line("cluster", "decommission", "--yes", meta, dead)
        assert line.endswith("or keep it with --cancel") and "it is alive: stop it" in line
        bookies[dead].kill()
        bookies[dead].start()  # its cookie is still there
        until(lambda: dead in living(meta))
        until(lambda: not takes_entries(meta, dead))
        printed("cluster", "decommission", "--cancel", meta, dead)
        assert takes_entries(meta, dead), "when the command ends"
        until(lambda: status(meta)["whole"])
        assert dead in [row["bookie_id"] for row in printed("cluster", "bookies", meta)]


def test_info_has_a_line_for_a_bookie_that_is_registered_and_does_not_answer(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(2, tmp_path, uri, lease_seconds=30) as (one, other):
        one.kill()
        lines = succeeds("bookie", "info", f"--metadata={uri}").decode().splitlines()
        assert "cannot connect" in next(line for line in lines if line.startswith(one.bookie_id))
        assert "serving" in next(line for line in lines if line.startswith(other.bookie_id))


def test_a_drain_that_stands_still_says_why(tmp_path: Path) -> None:
    with cluster(tmp_path, 5) as (meta, bookies), LedgerClient(meta.removeprefix("--metadata=")) as client:
        writer = client.create_ledger(ensemble_size=4, write_quorum=3, ack_quorum=2)
        writer.append(b"x")
        used = [bookie.bookie_id for bookie in writer.record.fragments[0].ensemble]
        with started("bookie", "drain", meta, used[0], "--wait") as draining:
            line_with(draining, "ledger 2 is open: its current entries are moved when it is closed")
            bookies[next(name for name in bookies if name not in used)].kill()
            writer.close()
            line_with(
                draining, "no other living, writable bookie with healing enabled may take its place: add one"
            )


def test_a_bookie_is_drained_and_may_be_stopped(tmp_path: Path) -> None:
    with cluster(tmp_path, 4) as (meta, bookies):
        leaving = ensemble(meta)[2]
        done = succeeds("bookie", "drain", "--wait", meta, leaving)
        assert f"nothing refers to {leaving} now: it may be stopped".encode() in done
        assert leaving not in ensemble(meta)
        (row,) = [row for row in printed("cluster", "bookies", meta) if row["bookie_id"] == leaving]
        assert row["state"] == "draining"
        assert bookies[leaving].stop() == 0
        assert bookledger("cluster", "decommission", "--yes", meta, leaving).returncode == 0
        until(lambda: status(meta)["whole"])


def test_orders_that_nobody_can_follow_are_refused(tmp_path: Path) -> None:
    with cluster(tmp_path, 3) as (meta, _):
        for command in (("cluster", "maintenance"), ("cluster", "decommission", "--yes")):
            line = fails_with_one_line(*command, meta, "nobody")
            assert line == "no bookie was ever formatted as nobody"
        line = fails_with_one_line("bookie", "drain", meta, "bookie-1")
        assert line == "only 2 other bookies take entries, but some ledgers need 3: add a bookie first"
        assert [row["state"] for row in printed("cluster", "bookies", meta)] == ["living"] * 3


def test_nothing_is_copied_from_a_bookie_in_maintenance(tmp_path: Path) -> None:
    with cluster(tmp_path, 4) as (meta, bookies):
        away = ensemble(meta)[0]
        assert bookledger("cluster", "maintenance", meta, away).returncode == 0
        bookies[away].stop()
        audit = told("cluster", "audit", meta, "--lost-after=0")
        assert audit["needs"] == {}
        assert bookledger("cluster", "maintenance", "--end", meta, away).returncode == 0
        until(lambda: told("cluster", "audit", meta, "--lost-after=0")["needs"] == {"lost": 1})


def make_empty_store(uri: str) -> None:
    async def make() -> None:
        store = await open_store(uri, create=True)
        await store.close()

    run(make())


def living(meta: str) -> list[str]:
    with LedgerClient(meta.removeprefix("--metadata=")) as client:
        return [one.bookie.bookie_id for one in client.list_bookies()]


@pytest.mark.parametrize(
    "command",
    [
        ("cluster", "status"),
        ("cluster", "bookies"),
        ("cluster", "ledgers", "--under-replicated"),
        ("cluster", "audit"),
        ("ledger", "check", "1"),
        ("ledger", "list"),
        ("bookie", "info"),
    ],
    ids=" ".join,
)
def test_where_there_is_no_cluster_that_is_said(tmp_path: Path, command: tuple[str, ...]) -> None:
    """As with a mistyped prefix of an etcd URI: the store answers, and has nothing."""
    make_empty_store(f"sqlite://{tmp_path}/metadata.db")
    line = fails_with_one_line(*command, f"--metadata=sqlite://{tmp_path}/metadata.db")
    assert line.startswith("there is no cluster here: check the URI's prefix")


def test_ledgers_are_listed_by_what_one_asks_for(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    meta = f"--metadata={uri}"
    with bookie_processes(2, tmp_path, uri):
        with LedgerClient(uri) as client:
            client.create_ledger(ensemble_size=1, custom_metadata={"owner": b"a"}).close()
            client.create_ledger(ensemble_size=1, custom_metadata={"owner": b"b"}).close()
            writer = client.create_ledger(ensemble_size=1)
            holder = writer.record.fragments[0].ensemble[0].bookie_id
            wanted = {
                ("--state=open",): [3],
                ("--state=closed",): [1, 2],
                ("--custom=owner",): [1, 2],
                ("--custom=owner=b",): [2],
                ("--older-than=3600",): [],
                ("--limit=2",): [1, 2],
                ("--first=2", "--limit=1"): [2],
            }
            for options, ids in wanted.items():
                rows = printed("ledger", "list", meta, *options)
                assert [row["ledger_id"] for row in rows] == ids, options
            assert 3 in [row["ledger_id"] for row in printed("ledger", "list", meta, f"--bookie={holder}")]
        assert b"more follow: --first 3" in bookledger("ledger", "list", meta, "--limit=2").stdout


def test_a_new_bookie_is_given_its_share_and_nothing_is_lost(tmp_path: Path) -> None:
    """Real bookies: planned, shown, moved, and read from where it stands afterwards."""
    with cluster(tmp_path, 3) as (meta, _):
        uri = meta.removeprefix("--metadata=")
        with LedgerClient(uri) as client:
            for _ in range(20):
                with client.create_ledger(ensemble_size=3, ack_quorum=2) as writer:
                    writer.append(b"y" * 5000)
            even = told("cluster", "rebalance", "--dry-run", meta)
            assert even["copies"] == 0
            with bookie_processes(1, tmp_path, uri, prefix="new", lease_seconds=2):
                # Once it lives in this look, too: its lease is short.
                until(lambda: told("cluster", "rebalance", "--dry-run", meta)["copies"] > 5)
                assert status(meta)["moving_ledgers"] == 0
                done = bookledger("cluster", "rebalance", "--wait", meta)
                assert done.returncode == 0 and b"ledgers to be moved" in done.stdout, done
                after = told("cluster", "rebalance", "--dry-run", meta)
                assert after["copies"] == 0
                used = {row["bookie_id"]: row["placed_bytes"] for row in after["bookies"]}
                assert used["new-1"] > 20_000
                until(lambda: status(meta)["whole"])
                assert printed("cluster", "rebalance", "--cancel", meta) == [{"cancelled_ledgers": 0}]
                for record in client.list_ledgers():
                    if record.ledger_id > 1:
                        with client.open_ledger(record.ledger_id) as reader:
                            assert [entry.payload for entry in reader.read(0, 0)] == [b"y" * 5000]


def test_an_auditor_without_a_bookie_takes_the_office_when_it_is_free(tmp_path: Path) -> None:
    """No bookie heals by itself here: only it finds what a lost one held."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    meta = f"--metadata={uri}"
    with bookie_processes(3, tmp_path, uri, lease_seconds=2, options=("--no-heal",)) as bookies:
        with LedgerClient(uri) as client, client.create_ledger(ensemble_size=3, ack_quorum=2) as writer:
            writer.append(b"x")
        assert status(meta)["auditor"] is None
        command = (*BOOKLEDGER, "autorecovery", meta, "--lost-after=0")
        auditor = Child(command, name="autorecovery", log=tmp_path / "autorecovery.log")
        try:
            until(lambda: (status(meta)["auditor"] or "").startswith("autorecovery"))
            bookies[0].kill()
            until(lambda: status(meta)["oldest_mark_seconds"] is not None)
        finally:
            assert auditor.stop() == 0
        assert status(meta)["auditor"] is None, "it has left its office"


def test_one_order_does_not_silently_end_another_and_is_shown_before_it_is_given(tmp_path: Path) -> None:
    with cluster(tmp_path, 4) as (meta, _):
        name = ensemble(meta)[0]
        shown = told("bookie", "drain", name, "--dry-run", meta)
        assert (shown["ordered"], shown["fragment_count"], shown["bytes"]) == (None, 1, 10_000)
        assert status(meta)["to_copy_bytes"] == 0
        printed("bookie", "drain", name, meta)
        assert "drain NAME --cancel" in fails_with_one_line("cluster", "maintenance", name, meta)
        assert "drain NAME --cancel" in fails_with_one_line("cluster", "maintenance", name, "--end", meta)
        until(lambda: not takes_entries(meta, name))
        printed("bookie", "drain", name, "--cancel", meta)
        assert takes_entries(meta, name), "when the command ends"
        printed("cluster", "maintenance", name, meta)
        assert "maintenance NAME --end" in fails_with_one_line("bookie", "drain", name, "--cancel", meta)
        assert "maintenance NAME --end" in fails_with_one_line("bookie", "drain", name, meta)


@pytest.mark.long
def test_a_rebalance_that_waits_for_a_dead_bookie_says_so(tmp_path: Path) -> None:
    with cluster(tmp_path, 3) as (meta, _):
        uri = meta.removeprefix("--metadata=")
        with LedgerClient(uri) as client:
            for _ in range(4):
                with client.create_ledger(ensemble_size=3, ack_quorum=2) as writer:
                    writer.append(b"y" * 5000)
        with bookie_processes(1, tmp_path, uri, prefix="new", lease_seconds=12) as (new,):
            until(lambda: len(printed("cluster", "bookies", meta)) == 4)
            new.kill()  # it counts as there until its lease is over, which is long after the moves were planned
            line = fails_with_last_line("cluster", "rebalance", "--wait", meta)
            assert "ledgers were to be moved to new-1, which is absent or read-only" in line
            assert told("cluster", "rebalance", "--cancel", meta)["cancelled_ledgers"] > 0


def fails_with_last_line(*arguments: str) -> str:
    done = bookledger(*arguments)
    assert done.returncode == 1, done
    return done.stderr.decode().splitlines()[-1]
