"""`ledger salvage`: what there is of a ledger whose quorum is lost, from real bookies, some dead or hung."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import LedgerClient, LedgerState, WriteHandle
from tests.support.command_line import bookledger, fails_with_one_line, succeeds
from tests.support.processes import hung
from tests.support.waiting import until

PARTLY = 3


@contextmanager
def cluster(
    tmp_path: Path, count: int, lease_seconds: float = 2
) -> Iterator[tuple[str, dict[str, BookieProcess]]]:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(count, tmp_path, uri, lease_seconds=lease_seconds) as bookies:
        yield uri, {bookie.bookie_id: bookie for bookie in bookies}


def salvaged(
    uri: str, ledger_id: int, output: Path, *options: str
) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    """The exit code, what is told to be missing, and the report."""
    done = bookledger(
        "ledger", "salvage", f"--metadata={uri}", str(ledger_id), f"--output={output}", "--json", *options
    )
    assert done.stderr == b"", done
    *missing, report = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, missing, report


def entries_in(output: Path) -> list[tuple[int, bool]]:
    """Ids, and whether they are proven."""
    found = [json.loads(line) for line in output.read_text().splitlines()]
    return [(entry["entry_id"], entry["proven"]) for entry in found]


def append(writer: WriteHandle, *numbers: int) -> None:
    for n in numbers:
        assert writer.append(b"entry %d" % n) == n


def confirmed_through(client: LedgerClient, writer: WriteHandle, last: int, bookie_id: str) -> None:
    """Returns once this bookie has been told."""
    until(lambda: client.salvage_ledger(writer.ledger_id, bookies=[bookie_id]).proven_through >= last)


def away(uri: str, *bookies: BookieProcess) -> None:
    """Kills them; returns when their leases have run out."""
    for bookie in bookies:
        bookie.kill()
    with LedgerClient(uri) as client:
        gone = {bookie.bookie_id for bookie in bookies}
        until(lambda: not gone & {one.bookie.bookie_id for one in client.list_bookies()})


def test_a_whole_ledger_is_salvaged_whole(tmp_path: Path) -> None:
    with cluster(tmp_path, 3) as (uri, _):
        with LedgerClient(uri) as client, client.create_ledger() as writer:
            append(writer, *range(5))
        code, missing, report = salvaged(uri, 1, tmp_path / "out")
        assert (code, missing) == (0, [])
        assert (report["entries"], report["unproven_entries"], report["not_asked"]) == (5, 0, {})
        assert report["complete"] is True
        assert entries_in(tmp_path / "out") == [(n, True) for n in range(5)]
        assert (
            fails_with_one_line("ledger", "salvage", f"--metadata={uri}", "1", f"--output={tmp_path}/out")
            == f"{tmp_path}/out already exists; choose another name, so that nothing is lost"
        )


def test_what_survives_the_loss_of_a_quorum_is_read_and_nothing_is_changed(tmp_path: Path) -> None:
    """Also what is not proven, and marked as such; the result goes into another ledger."""
    with cluster(tmp_path, 3) as (uri, bookies), LedgerClient(uri) as client:
        first, *others = bookies.values()
        writer = client.create_ledger(ack_quorum=2)
        append(writer, *range(5))
        others[0].kill()
        append(writer, 5)  # the lane to it fails, and the others confirm
        confirmed_through(client, writer, 5, first.bookie_id)
        away(uri, others[1])
        code, missing, report = salvaged(uri, writer.ledger_id, tmp_path / "out")
        assert (code, missing) == (PARTLY, [])
        assert report["complete"] is False, "others may have more"
        assert report["proven_through"] == 5 and set(report["not_asked"]) == {b.bookie_id for b in others}
        assert entries_in(tmp_path / "out") == [(n, True) for n in range(6)]
        # The writer is not fenced: what it appends without an ack quorum is on the survivor, and proven by nothing.
        unconfirmed = writer.append_async(b"entry 6")
        until(lambda: _has(uri, first, writer.ledger_id, 6, tmp_path))
        assert not unconfirmed.done()
        code, missing, report = salvaged(uri, writer.ledger_id, tmp_path / "more")
        assert (code, missing, report["unproven_entries"]) == (PARTLY, [], 1)
        assert entries_in(tmp_path / "more")[-2:] == [(5, True), (6, False)]
        assert client.describe_ledger(writer.ledger_id).state is LedgerState.OPEN

        with bookie_processes(2, tmp_path, uri, prefix="new"):
            done = succeeds(
                "ledger", "append", f"--metadata={uri}", "--json-lines", "--json", str(tmp_path / "more")
            )
            copy = json.loads(done)["ledger_id"]
            payloads = [entry.payload for entry in client.open_ledger(copy).read()]
        assert payloads == [b"entry %d" % n for n in range(7)]


def _has(uri: str, bookie: BookieProcess, ledger_id: int, entry_id: int, tmp_path: Path) -> bool:
    output = tmp_path / "look"
    output.unlink(missing_ok=True)
    salvaged(uri, ledger_id, output, f"--from={bookie.bookie_id}")
    return (entry_id, False) in entries_in(output)


def test_entries_that_nobody_has_are_listed(tmp_path: Path) -> None:
    """Of a striped ledger a bookie holds every third entry alone. So are those of bookies that are not to be asked."""
    with cluster(tmp_path, 3) as (uri, bookies):
        with (
            LedgerClient(uri) as client,
            client.create_ledger(ensemble_size=3, write_quorum=1, ack_quorum=1) as writer,
        ):
            append(writer, *range(9))
        first, second, third = [ref.bookie_id for ref in writer.record.fragments[0].ensemble]
        code, missing, _ = salvaged(uri, 1, tmp_path / "named", f"--from={first}", f"--from={third}")
        assert (code, [line["missing"] for line in missing]) == (PARTLY, [[1, 1], [4, 4], [7, 7]])
        line = fails_with_one_line(
            *("ledger", "salvage", f"--metadata={uri}", "1", f"--output={tmp_path}/no", "--from=nobody")
        )
        assert line == f"no live bookie is named nobody; live bookies: {', '.join(sorted(bookies))}"
        assert not (tmp_path / "no").exists()
        away(uri, bookies[second])
        code, missing, report = salvaged(uri, 1, tmp_path / "out")
        assert (code, report["missing_entries"], report["entries"]) == (PARTLY, 3, 6)
        assert [line["missing"] for line in missing] == [[1, 1], [4, 4], [7, 7]]
        assert all(sorted(line["lacking"]) == sorted(set(bookies) - {second}) for line in missing)
        assert list(report["not_asked"]) == [second]
        assert entries_in(tmp_path / "out") == [(n, True) for n in range(9) if n % 3 != 1]
        done = bookledger("ledger", "salvage", f"--metadata={uri}", "1", f"--output={tmp_path}/text")
        assert done.returncode == PARTLY
        assert b"missing: entry 4 (" in done.stdout and b"missing entries" in done.stdout
        done = bookledger("ledger", "read", f"--metadata={uri}", "1")
        assert (done.returncode, done.stdout) == (1, b"0\tentry 0\n")
        line = done.stderr.decode()
        assert "entry 1 of ledger 1 cannot be read" in line
        assert f"bring back {second}, and try again; if they will not come back, `bookledger ledger" in line
        assert line.endswith("`bookledger ledger salvage 1 --output FILE` saves the entries that exist\n")


def test_a_damaged_copy_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    with cluster(tmp_path, 1) as (uri, bookies):
        (one,) = bookies.values()
        with LedgerClient(uri) as client, client.create_ledger(ensemble_size=1) as writer:
            append(writer, *range(3))
        (segment,) = (one.directory / "log").glob("*.log")
        data = bytearray(segment.read_bytes())
        at = data.index(b"entry 1")
        data[at : at + 7] = b"ENTRY 1"
        segment.write_bytes(data)
        code, missing, report = salvaged(uri, 1, tmp_path / "out")
        assert (code, report["missing_entries"]) == (PARTLY, 1)
        assert missing == [{"missing": [1, 1], "unreadable": [one.bookie_id], "lacking": []}]
        assert entries_in(tmp_path / "out") == [(0, True), (2, True)]


def test_a_hung_bookie_holds_nobody_up_for_long(tmp_path: Path) -> None:
    """What the others have is there; who did not answer is named."""
    settings = tmp_path / "settings.toml"
    settings.write_text("[client]\nread_seconds_max = 1\n")
    with cluster(tmp_path, 3) as (uri, bookies):
        with LedgerClient(uri) as client, client.create_ledger() as writer:
            append(writer, *range(5))
        silent = bookies[writer.record.fragments[0].ensemble[0].bookie_id]
        with hung([silent]):
            done = bookledger(
                f"--config={settings}",
                *("ledger", "salvage", f"--metadata={uri}", "1", f"--output={tmp_path}/out", "--json"),
            )
        report = json.loads(done.stdout)
        assert (done.returncode, report["entries"]) == (0, 5), done
        assert list(report["not_asked"]) == [silent.bookie_id]
