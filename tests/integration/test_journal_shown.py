"""`journal show`, `list` and `fsck` where an acceptor cannot be read: the others are shown, and what failed is told."""

from __future__ import annotations

import json
from pathlib import Path

from bookledger.cli.processes import bookie_processes
from tests.qjm_compat.transfer.made_directories import CLUSTER_ID, NAMESPACE_ID, made_directory
from tests.support.command_line import bookledger, succeeds
from tests.support.etcd import free_port


def test_an_acceptor_without_bookies_hides_no_other_and_says_what_failed(tmp_path: Path) -> None:
    uri, other = (f"sqlite://{tmp_path}/{name}/metadata.db" for name in "ab")
    for name in "ab":
        (tmp_path / name).mkdir()
    meta, two = f"--metadata={uri}", ("--acceptor=a", f"--acceptor=b={other}")
    edits = made_directory(tmp_path / "name").parent
    with bookie_processes(1, tmp_path / "a", uri), bookie_processes(1, tmp_path / "b", other) as bookies:
        succeeds("journal", "import", meta, "ns1", str(edits), "--in-progress", "--ensemble=1", *two)
        bookies[0].kill()
        nobody = f"--acceptor=c=etcd://127.0.0.1:{free_port()}/x?timeout=1"
        arguments = ("journal", "show", meta, "ns1", *two, nobody)
        as_json, as_text = bookledger(*arguments, "--json"), bookledger(*arguments)
        listed = bookledger("journal", "list", f"--metadata={other}", "--json")

    one = json.loads(listed.stdout)
    assert (listed.returncode, listed.stderr, one["acceptor"], one["last_txid"]) == (1, b"", "b", 20)
    assert one["error"].startswith("segment 21: ledger ")
    assert (as_json.returncode, as_json.stderr) == (1, b"")
    a, b, c = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert (a["acceptor"], a["state"], a["last_txid"], a["error"]) == ("a", "formatted", 30, None)
    assert (b["acceptor"], b["state"], b["last_txid"]) == ("b", "formatted", 20)
    assert b["error"].startswith(f"segment 21: ledger {b['segments'][-1]['ledger']} could not be read: ")
    assert [(s["first"], s["last"], s["state"]) for s in b["segments"]] == [
        (1, 10, "finalized"),
        (11, 20, "finalized"),
        (21, None, "in progress, its ledger cannot be read"),
    ]
    assert (c["acceptor"], c["state"], c["last_txid"], c["segments"]) == ("c", "unknown", None, [])
    assert c["error"].startswith("the metadata store under the journal failed: ")
    assert a.keys() == b.keys() == c.keys()

    assert (as_text.returncode, as_text.stderr) == (1, b"")
    told = [line.split(maxsplit=1) for line in as_text.stdout.decode().splitlines()]
    assert [one[1] for one in told if one[0] == "acceptor"] == ["a", "b", "c"]
    assert [one[1].partition(":")[0] for one in told if one[0] == "error"] == [
        "segment 21",
        "the metadata store under the journal failed",
    ]


def test_an_acceptor_at_which_the_journal_is_not_formatted_is_called_so(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    meta, three = f"--metadata={uri}", ("--acceptor=a", "--acceptor=b", "--acceptor=c")
    about = (f"--namespace-id={NAMESPACE_ID}", f"--cluster-id={CLUSTER_ID}")
    with bookie_processes(1, tmp_path, uri):
        succeeds("journal", "format", meta, "ns1", *about, *three[:2])
        as_json = bookledger("journal", "show", meta, "ns1", *three, "--json")
        as_text = bookledger("journal", "show", meta, "ns1", *three)
    assert (as_json.returncode, as_json.stderr, as_text.returncode, as_text.stderr) == (0, b"", 0, b"")
    shown = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [(one["acceptor"], one["state"], one["error"]) for one in shown] == [
        ("a", "formatted", None),
        ("b", "formatted", None),
        ("c", "not formatted", None),
    ]
    last = [line.split(maxsplit=1) for line in as_text.stdout.decode().splitlines()][-3:]
    assert last == [["journal", "ns1"], ["acceptor", "c"], ["state", "not formatted"]]


def test_an_acceptor_whose_metadata_file_is_gone_is_a_problem_and_hides_no_other(tmp_path: Path) -> None:
    uri, gone = (f"sqlite://{tmp_path}/{name}.db" for name in ("metadata", "gone"))
    meta, three = f"--metadata={uri}", ("--acceptor=a", "--acceptor=b", f"--acceptor=c={gone}")
    edits = made_directory(tmp_path / "name").parent
    with bookie_processes(1, tmp_path, uri):
        succeeds("journal", "import", meta, "ns1", str(edits), "--ensemble=1", *three[:2])
        checked = bookledger("journal", "fsck", meta, "ns1", *three, "--json")
        shown = bookledger("journal", "show", meta, "ns1", *three, "--json")
        listed = bookledger("journal", "list", meta)
    problem, result = [json.loads(line) for line in checked.stdout.splitlines()]
    assert (checked.returncode, problem["where"], result["problems"]) == (1, "acceptor c", 1)
    assert "gone.db" in problem["problem"]
    assert result["last_txid"] == 30
    states = [(one["acceptor"], one["state"]) for one in map(json.loads, shown.stdout.splitlines())]
    assert (shown.returncode, states) == (1, [("a", "formatted"), ("b", "formatted"), ("c", "unknown")])
    assert (listed.returncode, b"error" in listed.stdout) == (0, False)
