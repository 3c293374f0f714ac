"""`bookledger log fork` and `log restore` on real bookies: what they do, what they print, and what they refuse."""

from __future__ import annotations

from functools import partial

import pytest

from ledgers import LedgerClient
from tests.integration.test_log_commands import made, records_of
from tests.support.command_line import bookledger, fails_with_one_line, told

of_json = partial(told, "log")

TEN = [b"%d" % n for n in range(10)]


def payloads_of(uri: str, name: str) -> list[bytes]:
    return [record.payload for record in records_of(uri, name)]


def test_a_fork_is_made_and_both_logs_say_what_they_share(uri: str, meta: str) -> None:
    made(uri, "forked", *TEN)
    fork = of_json("fork", meta, "forked", "forked-at-7", "--at=7")
    assert (fork["end_position"], fork["shared_with"]) == (7, ["forked: 0 to 6"])
    shown = of_json("show", meta, "forked")
    assert shown["shared_with"] == ["forked-at-7: 0 to 6"]
    assert (shown["own_bytes"], fork["own_bytes"]) == (0, 0) and shown["shared_bytes"] > fork[
        "shared_bytes"
    ] > 0
    asked = bookledger("log", "delete", meta, "forked", stdin=b"n\n")
    assert b"0 bytes of each copy are freed, " in asked.stderr and b" stay for forked-at-7)?" in asked.stderr
    assert of_json("delete", meta, "forked", "--yes") == {"log": "forked", "deleted": True}
    assert payloads_of(uri, "forked-at-7") == TEN[:7]
    assert of_json("show", meta, "forked-at-7")["shared_with"] == []


def test_a_log_is_taken_back_once_that_is_confirmed(uri: str, meta: str) -> None:
    made(uri, "spoiled", *TEN)
    with LedgerClient(uri) as client:
        client.log("spoiled").cursor("billing", start=9).close()
    planned = of_json("restore", meta, "spoiled", "--at=4", "--former=spoiled-before", "--dry-run")
    expected = {
        "log": "spoiled",
        "end_position": 4,
        "records_less": 6,
        "former_log": "spoiled-before",
        "cursors_set_back": ["billing: from 9"],
    }
    assert planned == {**expected, "restored": False} and payloads_of(uri, "spoiled") == TEN
    asked = bookledger("log", "restore", meta, "spoiled", "--at=4", stdin=b"n\n")
    assert b"restore log spoiled to position 4, without its last 6 records" in asked.stderr
    assert payloads_of(uri, "spoiled") == TEN
    done = of_json("restore", meta, "spoiled", "--at=4", "--former=spoiled-before", "--yes")
    assert done == {**expected, "restored": True}
    assert payloads_of(uri, "spoiled") == TEN[:4] and payloads_of(uri, "spoiled-before") == TEN
    told_so = fails_with_one_line("log", "append", meta, "spoiled-before", "--take-over", stdin=b"more\n")
    assert "open 'spoiled' again" in told_so
    audited = of_json("restore", meta, "spoiled", "--before=2020-01-01", "--dry-run")
    assert audited["end_position"] == 0 and audited["former_log"].startswith("spoiled.")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("restore", "there"), "give --at POSITION, or --before TIME"),
        (("restore", "there", "--at=1", "--before=2026-01-01"), "give --at POSITION, or --before TIME"),
        (("fork", "there", "other", "--at=1", "--before=2026-01-01"), "mutually exclusive"),
        (("fork", "there", "o/ther"), "name"),
        (("fork", "there", "there"), "log 'there' already exists"),
        (("fork", "nowhere", "other"), "there is no log 'nowhere'"),
        (("restore", "there", "--at=11", "--yes"), "beyond its end"),
    ],
)
def test_what_cannot_be_is_refused(uri: str, meta: str, arguments: tuple[str, ...], why: str) -> None:
    with LedgerClient(uri) as client:
        client.log("there", create=True)
    command, *rest = arguments
    done = bookledger("log", command, meta, *rest)
    assert done.returncode in (1, 2) and why in done.stderr.decode()
    assert payloads_of(uri, "there") == []
