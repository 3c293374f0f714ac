"""`bookledger bookie check`, `dump` and `rebuild-index` on what a real bookie has left behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient
from tests.support import command_line
from tests.support.command_line import fails_with_one_line

ENTRIES = 50


def printed(*arguments: str, code: int = 0) -> str:
    """What a command prints that ends with this code."""
    done = command_line.bookledger(*arguments)
    assert done.returncode == code, done.stderr
    return done.stdout.decode()


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The directory of a bookie that has stored a ledger and was killed."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri) as (bookie,):
        with (
            LedgerClient(uri) as client,
            client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer,
        ):
            for n in range(ENTRIES):
                writer.append(b"entry %d" % n)
        bookie.kill()
    (data,) = [path.parent for path in tmp_path.rglob("cookie.json")]
    return data


def first_segment(data: Path) -> Path:
    return data / "log" / "00000000.log"


def test_a_whole_directory_is_found_whole(stopped: Path) -> None:
    assert printed("bookie", "check", f"--data={stopped}").splitlines()[-1] == "nothing is wrong"
    findings = json.loads(printed("bookie", "check", f"--data={stopped}", "--json"))
    assert (findings["entries"], findings["ledgers"], findings["problems"]) == (ENTRIES, 1, [])


def test_damage_is_named_and_the_exit_code_says_so(stopped: Path) -> None:
    lines = [
        json.loads(line)
        for line in printed("bookie", "dump", str(first_segment(stopped)), "--json").splitlines()
    ]
    broken = [line for line in lines if line["kind"] == "entries"][3]
    with first_segment(stopped).open("r+b") as file:
        place = broken["offset"] + 90
        file.seek(place)
        (was,) = file.read(1)
        file.seek(place)
        file.write(bytes([was ^ 0xFF]))
    found = printed("bookie", "check", f"--data={stopped}", code=1)
    assert f"PROBLEM: 00000000.log at offset {broken['offset']}: damage" in found
    assert "gap" in printed("bookie", "dump", str(first_segment(stopped)))
    assert f"offset {broken['offset']}" in fails_with_one_line("bookie", "rebuild-index", f"--data={stopped}")


def test_a_lost_index_is_made_anew_and_the_bookie_serves_as_before(stopped: Path, tmp_path: Path) -> None:
    shutil.rmtree(stopped / "index")
    (stopped / "index").mkdir()
    printed("bookie", "rebuild-index", f"--data={stopped}")
    assert "nothing is wrong" in printed("bookie", "check", f"--data={stopped}")
    assert "kind=frame" in printed("bookie", "dump", str(stopped / "index"))


@pytest.mark.parametrize("command", ["check", "rebuild-index"])
@pytest.mark.parametrize("harm", ["no log", "a directory for a segment", "no cookie"])
def test_a_part_of_a_bookie_that_is_gone_is_named_with_what_to_do(
    stopped: Path, command: str, harm: str
) -> None:
    match harm:
        case "no log":
            shutil.rmtree(stopped / "log")
            why = "log is missing from a formatted bookie directory; put it back"
        case "no cookie":
            (stopped / "cookie.json").unlink()
            why = "cookie.json is gone, and the log of a bookie is there: put the file back"
        case _:
            first_segment(stopped).unlink()
            first_segment(stopped).mkdir()
            why = "is a directory, but should be a log file: move it away"
    assert why in fails_with_one_line("bookie", command, f"--data={stopped}")


def test_a_file_that_is_no_bookies_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("hello")
    assert "does not belong to a bookie" in fails_with_one_line(
        "bookie", "dump", str(tmp_path / "letter.txt")
    )
    assert "is not a formatted bookie directory" in fails_with_one_line(
        "bookie", "check", f"--data={tmp_path}"
    )
