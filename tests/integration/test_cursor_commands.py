"""`bookledger log cursors` and `seek` on real bookies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient
from tests.support.command_line import bookledger, fails_with_one_line, told


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three running bookies, with a log of ten records of 100 bytes each."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    uri = f"sqlite://{directory}/metadata.db"
    with bookie_processes(3, directory, uri):
        with LedgerClient(uri) as client, client.create_log("orders").writer() as writer:
            writer.append_batch([b"%090d" % n for n in range(10)])
        yield uri


of_json = partial(told, "log")


def test_a_seek_makes_a_cursor_where_it_is_told_to_and_moves_it(uri: str, meta: str) -> None:
    said = fails_with_one_line("log", "seek", meta, "orders", "billing", "4")
    assert said == "log 'orders' has no cursor 'billing'"
    made = of_json("seek", meta, "orders", "billing", "4", "--create")
    assert (made["log"], made["cursor"], made["position"]) == ("orders", "billing", 4)
    assert (made["lag_records"], made["lag_bytes"], made["truncated"], made["problem"]) == (6, 600, 0, None)
    for arguments, position in ((("--to", "end"), 10), (("--at", "2020-01-01"), 0), (("7",), 7)):
        moved = of_json("seek", meta, "orders", "billing", *arguments)
        assert moved["position"] == position
    listed = of_json("cursors", meta, "orders")
    assert (listed["cursor"], listed["position"], listed["lag_records"]) == ("billing", 7, 3)
    assert listed["lag_seconds"] > 0
    assert listed["changed_at"] is not None
    with LedgerClient(uri) as client:
        log = client.log("orders")
        assert [record.position for record in log.consume("billing", timeout=0, consumer="a")] == [7, 8, 9]
        listed = of_json("cursors", meta, "orders")
        assert (listed["consumer"], listed["position"], listed["lag_records"]) == ("a", 10, 0)
        log.delete_cursor("billing")
    done = bookledger("log", "cursors", meta, "orders")
    assert done.stdout == b"log orders has no cursors\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("orders", "x"), "give exactly one of POSITION, --to and --at"),
        (("orders", "x", "3", "--to", "end"), "give exactly one of POSITION, --to and --at"),
        (("orders", "a/b", "3"), "'a/b' is not a valid cursor name"),
        (("orders", "x", "11", "--create"), "ends before position 10, so position 11 is beyond its end"),
        (("nothing", "x", "1"), "there is no log 'nothing'"),
    ],
)
def test_a_seek_that_cannot_be_made_says_why(meta: str, arguments: tuple[str, ...], words: str) -> None:
    done = bookledger("log", "seek", meta, *arguments)
    assert done.returncode != 0
    assert words in done.stderr.decode()
