"""`bookledger log` on real bookies: what it stores, what it prints, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledgers import LedgerClient, NewRecord, Record
from tests.support.command_line import bookledger, fails_with_one_line, lines, told
from tests.support.secrets import password_file
from tests.support.stopping import feed, next_line, started, stopped
from tests.support.waiting import until

of_json = partial(told, "log")


def made(uri: str, name: str, *payloads: bytes) -> None:
    """A log with these records, that nobody writes to."""
    with LedgerClient(uri) as client, client.create_log(name).writer() as writer:
        writer.append_batch(payloads)


def records_of(uri: str, name: str) -> list[Record]:
    with LedgerClient(uri) as client:
        return list(client.log(name).read())


def test_lines_appended_by_one_program_after_another_are_read_as_one_sequence(uri: str, meta: str) -> None:
    first = of_json("append", meta, "--create", "orders", stdin=lines(1000))
    assert first == {
        "log": "orders",
        "first_position": 0,
        "end_position": 1000,
        "records": 1000,
        "payload_bytes": 7890,
    }
    assert of_json("append", meta, "orders", stdin=b"one more\n")["first_position"] == 1000
    read = bookledger("log", "read", meta, "orders", "--first=999")
    assert read.stdout == b"999\tline 999\n1000\tone more\n"
    assert (
        bookledger("log", "read", meta, "orders", "--first=1", "--last=2", "--raw").stdout == b"line 1line 2"
    )
    shown = of_json("show", meta, "orders")
    assert (shown["end_position"], shown["writer"], shown["epoch"]) == (1001, None, 2)
    assert [one["first_position"] for one in shown["segments"]] == [0, 1000]
    assert "orders" in {json.loads(line)["log"] for line in listed(uri)}


def listed(uri: str) -> list[bytes]:
    return bookledger("log", "list", f"--metadata={uri}", "--json").stdout.splitlines()


def test_a_log_is_made_with_its_settings_and_once(meta: str) -> None:
    of_json("create", meta, "rolls", "--ensemble=2", "--ack-quorum=2", "--roll-records=10")
    assert "log 'rolls' already exists" in fails_with_one_line("log", "create", meta, "rolls")
    of_json("append", meta, "rolls", stdin=lines(25))
    shown = of_json("show", meta, "rolls")
    assert (shown["ensemble_size"], shown["ack_quorum"], shown["roll_records"]) == (2, 2, 10)
    assert bookledger("log", "read", meta, "rolls", "--first=24").stdout == b"24\tline 24\n"


def test_a_log_that_is_not_there_is_named(meta: str) -> None:
    for command in (["append"], ["read"], ["tail"], ["show"], ["delete", "--yes"], ["truncate", "--yes"]):
        more = ["5"] if command[0] == "truncate" else []
        said = fails_with_one_line("log", *command, meta, "nowhere", *more)
        assert said == "there is no log 'nowhere'"
    assert fails_with_one_line("log", "rename", meta, "nowhere", "new") == said


def test_what_read_prints_as_json_append_takes(uri: str, meta: str) -> None:
    new = [
        NewRecord(b""),
        NewRecord(b"\x00\n\xff", key=b"", headers={"é": b"\xff"}, event_time=-5),
        NewRecord("é".encode() * 1000, key=b"k"),
    ]
    with LedgerClient(uri) as client, client.create_log("full").writer() as writer:
        writer.append_batch(new)
    printed = bookledger("log", "read", meta, "full", "--json").stdout
    of_json(
        "append", meta, "--create", "copy", "--json-lines", stdin=printed + b'{"payload":"t","key":"k"}\n'
    )
    found = [NewRecord(r.payload, r.key, r.headers, r.event_time) for r in records_of(uri, "copy")]
    assert found == [*new, NewRecord(b"t", key=b"k")]
    times = [json.loads(line)["time_us"] for line in printed.splitlines()]
    assert times == [record.time for record in records_of(uri, "full")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"no json", "not valid JSON from character 1 on"),
        (b"[]", "an entry must be an object"),
        (b'{"payload":"p","key":5}', "key must be text; use key_base64 for bytes"),
        (b'{"payload":"p","event_time_us":1.5}', "a whole number of microseconds"),
    ],
)
def test_a_line_that_is_no_record_is_told_by_its_number(meta: str, line: bytes, why: str) -> None:
    stdin = b'{"payload":"good"}\n' + line + b"\n"
    said = fails_with_one_line(
        "log", "append", meta, "--create", "--take-over", "wrong", "--json-lines", stdin=stdin
    )
    assert "line 2 of the input" in said and why in said
    assert "`bookledger log read wrong --first" in said


def test_a_log_is_followed_from_one_writer_to_the_next(meta: str) -> None:
    of_json("create", meta, "followed")
    with started("log", "tail", meta, "followed") as tail:
        for number in range(3):
            of_json("append", meta, "followed", stdin=b"by writer %d\n" % number)
            assert next_line(tail) == f"{number}\tby writer {number}\n"
        assert "go on with --first 3" in stopped(tail)


def test_a_follower_may_begin_with_what_is_new_and_end_by_itself(uri: str, meta: str) -> None:
    made(uri, "news", b"old", b"older")
    with started("log", "tail", meta, "news", "--new", "--count=1") as tail, LedgerClient(uri) as client:
        writer = client.log("news").writer()
        until(lambda: writer.append(b"new") >= 0 and tail.poll() is not None)
        assert tail.communicate()[0].endswith("\tnew\n")
        writer.close()
    assert bookledger("log", "tail", meta, "news", "--timeout=0", "--count=2").stdout == b"0\told\n1\tolder\n"
    beyond = fails_with_one_line("log", "tail", meta, "news", "--first=999999")
    assert beyond.startswith("log 'news' ends before") and "position 999999 is beyond its end" in beyond


def test_an_append_takes_no_log_from_its_writer_unless_it_is_told_to(uri: str, meta: str) -> None:
    of_json("create", meta, "taken")
    with started("log", "append", meta, "taken", "--json") as first:
        feed(first, "one\n")
        until(lambda: [record.payload for record in records_of(uri, "taken")] == [b"one"])
        said = fails_with_one_line("log", "append", meta, "taken", stdin=b"two\n")
        assert "log taken has a writer" in said and "--take-over fences it" in said
        assert of_json("append", meta, "taken", "--take-over", stdin=b"two\n")["first_position"] == 1
        feed(first, "three\n")
        assert first.wait(30) == 1, "it notices though its input stays open"
        error = first.communicate()[1]
    assert "another writer has taken log 'taken' over" in error
    assert "records 1 to 1 of the input are known to be in log taken" in error
    assert "`bookledger log read taken --first 1`" in error
    assert [record.payload for record in records_of(uri, "taken")] == [b"one", b"two"]


def test_what_was_appended_at_a_time_or_later_is_read_and_what_was_before_given_up(
    uri: str, meta: str
) -> None:
    made(uri, "timed", b"a")
    made_at = records_of(uri, "timed")[0].time / 1_000_000
    assert bookledger("log", "read", meta, "timed", f"--since={iso(made_at - 1)}").stdout == b"0\ta\n"
    assert bookledger("log", "read", meta, "timed", f"--since={iso(made_at + 1)}").stdout == b""
    cut = of_json("truncate", meta, "timed", "--yes", f"--before={iso(made_at + 1)}")
    assert cut == {"log": "timed", "first_position": 1, "records": 1}
    assert bookledger("log", "read", meta, "timed").stdout == b""


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_a_truncation_is_asked_for_and_readers_are_told_where_to_go_on(uri: str, meta: str) -> None:
    made(uri, "cut", b"a", b"b", b"c")
    no = bookledger("log", "truncate", meta, "cut", "2", stdin=b"n\n")
    assert no.returncode == 1 and b"delete 2 records of log cut, from position 0 to 1?" in no.stderr
    assert of_json("truncate", meta, "cut", "2", "--yes") == {"log": "cut", "first_position": 2, "records": 2}
    assert of_json("truncate", meta, "cut", "1") == {"log": "cut", "first_position": 2, "records": 0}
    assert bookledger("log", "read", meta, "cut").stdout == b"2\tc\n"
    for command in ("read", "tail"):
        said = fails_with_one_line("log", command, meta, "cut", "--first=0")
        assert "the oldest one left is 2" in said
    assert "ends before position 3" in fails_with_one_line(
        "log", "truncate", meta, "cut", "9"
    )  # nothing is asked


def test_a_renamed_log_has_its_records_and_the_old_name_is_free(uri: str, meta: str) -> None:
    made(uri, "before", b"a")
    made(uri, "another", b"b")
    assert "log 'another' already exists" in fails_with_one_line("log", "rename", meta, "before", "another")
    assert of_json("rename", meta, "before", "after") == {"log": "after", "was": "before"}
    assert bookledger("log", "read", meta, "after").stdout == b"0\ta\n"
    assert of_json("append", meta, "--create", "before", stdin=b"c\n")["first_position"] == 0


def test_a_deleted_log_leaves_no_ledger(uri: str, meta: str) -> None:
    made(uri, "gone", b"a", b"b")
    ledger_ids = {segment["ledger_id"] for segment in of_json("show", meta, "gone")["segments"]}
    assert bookledger("log", "delete", meta, "gone", stdin=b"n\n").returncode == 1
    assert of_json("delete", meta, "gone", "--yes") == {"log": "gone", "deleted": True}
    assert fails_with_one_line("log", "read", meta, "gone") == "there is no log 'gone'"
    with LedgerClient(uri) as client:
        assert not ledger_ids & {record.ledger_id for record in client.list_ledgers()}


def test_a_log_takes_the_password_that_it_was_made_with_alone(meta: str, tmp_path: Path) -> None:
    right = f"--password-file={password_file(tmp_path / 'password', 'right')}"
    of_json("create", meta, "secret", right, "--digest=hmac-sha256")
    of_json("append", meta, "secret", right, stdin=b"mine\n")
    assert bookledger("log", "read", meta, "secret", right).stdout == b"0\tmine\n"
    for command in (["append"], ["read"]):
        assert "password" in fails_with_one_line("log", *command, meta, "secret", stdin=b"other\n")
    assert [segment["end_position"] for segment in of_json("show", meta, "secret", right)["segments"]] == [1]


def test_records_go_into_a_file_or_a_directory(uri: str, meta: str, tmp_path: Path) -> None:
    directory = tmp_path / "records"
    made(uri, "filed", b"a", b"\n")
    assert bookledger("log", "read", meta, "filed", "--raw", f"--output={tmp_path}/all").returncode == 0
    assert (tmp_path / "all").read_bytes() == b"a\n"
    directory.mkdir()
    assert bookledger("log", "read", meta, "filed", f"--output={directory}").returncode == 0
    found = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert found == {f"{0:019}": b"a", f"{1:019}": b"\n"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["x/y"], "is not a usable name"),
        (["x", "--ensemble=2", "--write-quorum=3"], "do not fit"),
        (["x", "--digest=hmac-sha256"], "password"),
    ],
)
def test_a_log_that_cannot_be_is_wrong_usage(meta: str, arguments: list[str], why: str) -> None:
    done = bookledger("log", "create", *arguments, meta)
    assert done.returncode == 2 and why in done.stderr.decode(), done


def test_a_log_under_legal_hold_is_kept_until_that_is_ended(meta: str) -> None:
    of_json("append", meta, "--create", "held", stdin=lines(2))
    assert of_json("hold", meta, "held") == {"log": "held", "legal_hold": True}
    assert of_json("show", meta, "held")["legal_hold"] is True
    for command in (["truncate", "--yes", "held", "1"], ["delete", "--yes", "held"]):
        assert "under legal hold" in fails_with_one_line("log", command[0], meta, *command[1:])
    assert of_json("hold", meta, "held", "--end") == {"log": "held", "legal_hold": False}
    of_json("delete", meta, "held", "--yes")


def test_what_goes_by_itself_is_settled_option_by_option_and_shown_with_what_keeps_it(
    uri: str, meta: str
) -> None:
    of_json("create", meta, "kept", "--age", "7d", "--bytes", "10GiB")
    nothing: dict[str, Any] = {
        "age_seconds": None,
        "bytes": None,
        "cursors": [],
        "cursor_silent_seconds": None,
    }
    settled = nothing | {"age_seconds": 604_800.0, "bytes": 10 * 2**30}
    assert of_json("show", meta, "kept")["retention"] == settled
    with LedgerClient(uri) as client, client.log("kept").writer() as writer:
        writer.append(b"1")
    cursor = ("--cursor", "billing", "--cursor-silent", "3d")
    told = of_json("retention", meta, "kept", "--age", "90s", *cursor)
    settled |= {"age_seconds": 90.0, "cursors": ["billing"], "cursor_silent_seconds": 259_200.0}
    assert told["retention"] == of_json("show", meta, "kept")["retention"] == settled
    assert told["counted_cursors"] == [
        {"cursor": "billing", "position": None, "silent_seconds": 0.0, "counts": True}
    ]
    assert (told["next"]["end_position"], told["next"]["stays_because"]) == (
        1,
        "cursor billing does not exist",
    )
    of_json("seek", meta, "kept", "billing", "1", "--create")
    told = of_json("retention", meta, "kept")
    assert told["next"]["stays_because"] == "it is not old enough"
    assert told["next"]["goes_at"] > of_json("show", meta, "kept")["segments"][0]["last_record_at"]
    assert of_json("retention", meta, "kept", "--none", "--bytes", "1")["retention"] == nothing | {"bytes": 1}
    assert of_json("retention", meta, "kept", "--none")["retention"] is None
    of_json("delete", meta, "kept", "--yes")
