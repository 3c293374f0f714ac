"""`bookledger journal` in processes of its own: what it prints, its exit codes, and an import that is killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from metadata import opened_store
from metadata.records.journal_store import JournalStore
from qjm_compat.aio import DEFAULT_ACCEPTOR
from qjm_compat.config import AcceptorConfig
from qjm_compat.edits import segment_bytes
from qjm_compat.transfer.files.names import finalized_name, in_progress_name
from qjm_compat.transfer.inspection.inspector import JournalInspector
from tests.qjm_compat.transfer.made_directories import (
    CLUSTER_ID,
    LAYOUT,
    NAMESPACE_ID,
    finalized,
    frame,
    frames,
    in_progress,
    made_directory,
    version,
)
from tests.support.aio import run, until_true
from tests.support.command_line import bookledger, fails_with_one_line, succeeds
from tests.support.etcd import free_port
from tests.support.stopping import next_line, started, stopped

WAITING_SECONDS = 1.5
"""How long a follower is seen to wait for a first edit; on a slow machine it may have to wait for less."""

LARGE_TXNS = 10_000
LARGE_PATH_BYTES = 4000


def journal(command: str, *arguments: str) -> list[dict[str, Any]]:
    """What a command prints as JSON."""
    return [json.loads(line) for line in succeeds("journal", command, "--json", *arguments).splitlines()]


def test_a_directory_is_imported_shown_followed_checked_and_exported(meta: str, tmp_path: Path) -> None:
    current = made_directory(tmp_path / "name")
    (done,) = journal("import", meta, "ns1", str(tmp_path / "name"))
    assert (done["formatted"], done["segments"], done["ops"], done["last_txid"]) == (True, 3, 30, 30)
    assert done["bytes"] == len(frames(1, 30)) and done["mb_per_s"] >= 0
    (shown,) = journal("show", meta, "ns1")
    assert [(s["first"], s["last"], s["state"]) for s in shown["segments"]] == [
        (1, 10, "finalized"),
        (11, 20, "finalized"),
        (21, 30, "finalized"),
    ]
    assert (shown["acceptor"], shown["cluster_id"], shown["last_txid"]) == (DEFAULT_ACCEPTOR, CLUSTER_ID, 30)
    assert journal("list", meta)[0]["journal"] == "ns1"
    edits = journal("tail", meta, "ns1", "--from=18")
    assert [edit["txid"] for edit in edits] == list(range(18, 31))
    assert {edit["op"] for edit in edits} == {"OP_SET_REPLICATION"}
    assert journal("fsck", meta, "ns1", "--deep")[-1]["problems"] == 0
    (exported,) = journal("export", meta, "ns1", str(tmp_path / "out"))
    assert exported["segments"] == 3
    assert (tmp_path / "out" / finalized_name(11, 20)).read_bytes() == (
        current / finalized_name(11, 20)
    ).read_bytes()


def test_a_journal_is_formatted_once_and_forgotten_only_by_force(meta: str) -> None:
    about = ("--namespace-id=7", "--cluster-id=c7")
    journal("format", meta, "ns2", *about)
    assert fails_with_one_line("journal", "format", meta, "ns2", *about) == (
        "nothing was done; --force would discard the existing edits: journal ns2 is formatted already "
        "(InconsistentFSStateException)"
    )
    journal("format", meta, "ns2", *about, "--force", "--yes")
    (recovered,) = journal("recover", meta, "ns2")
    assert (recovered["segment"], recovered["was_in_progress"]) == (None, False)
    assert journal("tail", meta, "ns2") == []


def test_what_is_formatted_at_all_acceptors_is_told_once(meta: str) -> None:
    about = (meta, "ns12", "--namespace-id=7", "--cluster-id=c7")
    three = tuple(f"--acceptor={name}" for name in "abc")
    journal("format", *about, *three)
    assert fails_with_one_line("journal", "format", *about, *three) == (
        "nothing was done; --force would discard the existing edits: "
        "journal ns12 is formatted already at a, b and c (InconsistentFSStateException)"
    )


def test_a_segment_left_in_progress_is_recovered_and_purged(meta: str, tmp_path: Path) -> None:
    made_directory(tmp_path / "name")
    (done,) = journal("import", meta, "ns3", str(tmp_path / "name"), "--in-progress")
    assert done["left_in_progress"] == 21
    assert "take over if it is dead" in fails_with_one_line("journal", "purge", meta, "ns3", "--before=11")
    (recovered,) = journal("recover", meta, "ns3")
    assert (recovered["segment"], recovered["last_txid"], recovered["was_in_progress"]) == (21, 30, True)
    journal("purge", meta, "ns3", "--before=11")
    (shown,) = journal("show", meta, "ns3")
    assert [segment["first"] for segment in shown["segments"]] == [11, 21]
    for command in (["tail", meta, "ns3"], ["export", meta, "ns3", str(tmp_path / "exported")]):
        told = fails_with_one_line("journal", *command, "--from=1")
        assert "copy" not in told
        assert re.search("txids 1 to 10 are not there: the oldest (edit )?is 11.* purged", told)
        told = fails_with_one_line("journal", *command, "--from=100")
        assert re.search("ends? at txid 30, but 100 was requested", told)
    assert not list((tmp_path / "exported").iterdir())
    assert journal("tail", meta, "ns3", "--from=31") == []
    assert journal("fsck", meta, "ns3", "--orphan-age=0")[-1]["problems"] == 0


def test_a_follower_of_a_journal_without_edits_begins_with_the_first_there_will_be(
    meta: str, tmp_path: Path
) -> None:
    journal("format", meta, "ns10", f"--namespace-id={NAMESPACE_ID}", f"--cluster-id={CLUSTER_ID}")
    finalized(tmp_path, 1817, 1819)
    with started("journal", "tail", "-f", meta, "ns10") as following:
        with pytest.raises(subprocess.TimeoutExpired):
            following.wait(WAITING_SECONDS)
        journal("import", meta, "ns10", str(tmp_path))
        assert [json.loads(next_line(following))["txid"] for _ in range(3)] == [1817, 1818, 1819]
        finalized(tmp_path, 1820, 1821)
        journal("import", meta, "ns10", str(tmp_path))
        assert [json.loads(next_line(following))["txid"] for _ in range(2)] == [1820, 1821]
        stopped(following)


def test_orphans_are_deleted_by_command_unless_they_are_the_last_copy(
    uri: str, meta: str, tmp_path: Path
) -> None:
    made_directory(tmp_path / "name")
    journal("import", meta, "ns11", str(tmp_path / "name"))
    lost = journal("show", meta, "ns11")[0]["segments"][0]["ledger"]
    run(_lose_record(uri, "ns11", 1))
    done = bookledger("journal", "fsck", meta, "ns11", "--orphan-age=0", "--delete-orphans", "--yes")
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.decode().splitlines()[-1] == (
        f"kept: ledger {lost} was created for segment 1 of acceptor main, and nothing refers to it: "
        f"it holds txid 1, which no finalized segment has"
    )
    run(_lose_record(uri, "ns11", 11))
    bookledger(
        "ledger", "delete", "--yes", meta, str(journal("show", meta, "ns11")[0]["segments"][0]["ledger"])
    )
    done = bookledger("journal", "fsck", meta, "ns11", "--orphan-age=0", "--delete-orphans", "--yes")
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("bookledger: no orphan is deleted while the journal has other problems (1)")
    assert bookledger("ledger", "show", meta, str(lost)).returncode == 0


async def _lose_record(uri: str, journal_id: str, start_txid: int) -> None:
    async with opened_store(uri) as store:
        records = JournalStore(store, journal_id, DEFAULT_ACCEPTOR)
        found = await records.read_segment(start_txid)
        assert found is not None
        await records.delete_segment(found)


def test_problems_are_a_line_each_and_the_exit_code(meta: str, tmp_path: Path) -> None:
    made_directory(tmp_path / "name")
    journal("import", meta, "ns5", str(tmp_path / "name"))
    ledger = str(journal("show", meta, "ns5")[0]["segments"][1]["ledger"])
    bookledger("ledger", "delete", "--yes", meta, ledger)
    done = bookledger("journal", "fsck", meta, "ns5")
    assert (done.returncode, done.stderr) == (1, b"")
    first, *_ = done.stdout.decode().splitlines()
    assert first == f"problem: acceptor main, segment 11: there is no ledger {ledger}"
    assert journal("show", meta, "ns5")[0]["segments"][1]["state"] == "finalized, its ledger is gone"


def test_acceptors_must_all_be_named(meta: str) -> None:
    three = tuple(f"--acceptor={name}" for name in "abc")
    journal("format", meta, "ns6", "--namespace-id=7", "--cluster-id=c7", *three)
    line = fails_with_one_line("journal", "recover", meta, "ns6")
    assert line == "journal ns6 has more acceptors: give --acceptor for all of them, including a, b, c"
    assert "including c" in fails_with_one_line("journal", "fsck", meta, "ns6", *three[:2])
    assert [row["acceptor"] for row in journal("show", meta, "ns6")] == ["a", "b", "c"]
    journal("recover", meta, "ns6", *three)


def test_a_new_name_does_not_join_beside_the_one_whose_place_it_is_to_take(meta: str) -> None:
    """With both there would be four acceptors, of which no two may be away."""
    made = ("--namespace-id=7", "--cluster-id=c7")
    journal("format", meta, "ns6b", *made, *(f"--acceptor={name}" for name in "abc"))
    line = fails_with_one_line(
        "journal", "format", meta, "ns6b", *made, *(f"--acceptor={name}" for name in "abd")
    )
    assert line == (
        "journal ns6b has the acceptors c, which were not named, and none called d: an acceptor is identified "
        "by its name, so a replacement of c takes its name, too (`journal serve --name c`)"
    )
    assert [row["acceptor"] for row in journal("show", meta, "ns6b")] == ["a", "b", "c"]


def test_a_minority_that_is_down_is_done_without_and_told_by_a_check(meta: str) -> None:
    two = ("--acceptor=a", "--acceptor=b")
    journal("format", meta, "ns7", "--namespace-id=7", "--cluster-id=c7", *two)
    nobody = f"--acceptor=c=etcd://127.0.0.1:{free_port()}/x?timeout=1"
    assert journal("recover", meta, "ns7", *two, nobody)[0]["epoch"] == 1
    done = bookledger("journal", "fsck", meta, "ns7", *two, nobody)
    assert (done.returncode, done.stderr) == (1, b"")
    problems = [line for line in done.stdout.decode().splitlines() if line.startswith("problem: ")]
    assert len(problems) == 1, problems
    assert problems[0].startswith("problem: acceptor c: the metadata store under the journal failed")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "nobody"), "Journal nobody not formatted"),
        (
            ("fsck", "nobody"),
            "Journal nobody not formatted ; journal id: nobody (JournalNotFormattedException)",
        ),
        (("show", "ns1", "--acceptor=zz"), "has no acceptor zz of journal ns1, only "),
        (("recover", "nobody"), "not formatted"),
        (("import", "nobody", "/usr"), "holds no edits to import"),
    ],
)
def test_what_is_not_there_is_one_clear_line(meta: str, arguments: tuple[str, ...], said: str) -> None:
    assert said in fails_with_one_line("journal", *arguments, meta)


def test_a_file_is_dumped_as_json_and_checked(tmp_path: Path) -> None:
    whole = finalized(tmp_path, 1, 3)
    assert [edit["txid"] for edit in journal("dump", str(whole))] == [1, 2, 3]
    (checked,) = journal("dump", "--check", str(whole))
    assert (checked["ops"], checked["last_txid"], checked["damage"]) == (3, 3, [])
    torn = in_progress(tmp_path, 4, 6, torn=frame(7)[:-1])
    done = bookledger("journal", "dump", "--check", str(torn))
    offset = 8 + len(frames(4, 6))
    assert done.returncode == 1
    assert f"damage at offset {offset}" in done.stdout.decode()
    done = bookledger("journal", "dump", str(torn))
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 3)
    assert f"at offset {offset}" in done.stderr.decode()


def test_a_file_that_is_no_edit_log_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "edits_1-2").write_bytes(b"nothing of the kind")
    assert "is not a layout version" in fails_with_one_line("journal", "dump", str(tmp_path / "edits_1-2"))


@pytest.mark.long
def test_an_import_that_was_killed_is_gone_on_with(uri: str, meta: str, tmp_path: Path) -> None:
    current = tmp_path / "current"
    current.mkdir()
    version(current)
    finalized(current, 1, 10)
    finalized(current, 11, LARGE_TXNS, LARGE_PATH_BYTES)
    in_progress(current, LARGE_TXNS + 1, LARGE_TXNS + 10)
    with started("journal", "import", meta, "ns9", str(current)) as importing:
        run(_until_half_way(uri), timeout_seconds=60)
        importing.kill()
    assert importing.returncode == -signal.SIGKILL, "it was stopped before its end"
    assert "segment 11 at acceptor main" in fails_with_one_line(
        "journal", "import", meta, "ns9", str(current)
    )
    (done,) = journal("import", meta, "ns9", str(current), "--take-over")
    assert done["ops"] + done["ops_there"] == LARGE_TXNS + 10
    assert done["ops"] < LARGE_TXNS
    assert journal("fsck", meta, "ns9", "--orphan-age=0")[-1]["problems"] == 0
    (again,) = journal("import", meta, "ns9", str(current))
    assert (again["ops"], again["ops_there"]) == (0, LARGE_TXNS + 10)
    journal("export", meta, "ns9", str(tmp_path / "out"))
    edits = sorted(path for path in (tmp_path / "out").iterdir() if path.name.startswith("edits"))
    records = b"".join(path.read_bytes()[8:] for path in edits)
    assert records == frames(1, 10) + frames(11, LARGE_TXNS, LARGE_PATH_BYTES) + frames(
        LARGE_TXNS + 1, LARGE_TXNS + 10
    )


async def _until_half_way(uri: str) -> None:
    """Until the import has brought some of the large segment, and not all of it."""
    async with JournalInspector("ns9", [AcceptorConfig(DEFAULT_ACCEPTOR, uri)]) as inspector:

        async def is_half_way() -> bool:
            seen = await inspector.look(DEFAULT_ACCEPTOR)
            for segment in seen.in_progress if seen is not None else ():
                end = (await inspector.ledgers(DEFAULT_ACCEPTOR).look(segment.ledger_id)).end_txid
                if segment.start_txid == 11 and end is not None:
                    return True
            return False

        await until_true(is_half_way)


def test_a_namespace_is_asked_for_where_a_directory_does_not_tell_it(meta: str, tmp_path: Path) -> None:
    (tmp_path / in_progress_name(1)).write_bytes(segment_bytes(LAYOUT, [frames(1, 3)]))
    line = fails_with_one_line("journal", "import", meta, "ns8", str(tmp_path))
    assert "has no VERSION: format the journal manually first" in line
    journal("format", meta, "ns8", f"--namespace-id={NAMESPACE_ID}", f"--cluster-id={CLUSTER_ID}")
    assert journal("import", meta, "ns8", str(tmp_path))[0]["ops"] == 3
