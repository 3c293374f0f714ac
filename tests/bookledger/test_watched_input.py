"""The input of `ledger append`: who waits for it notices what else goes wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest

from bookledger.cli.payloads.source import watched
from ledgers import LedgerError


@pytest.fixture
def pipe() -> Iterator[tuple[FileIO, FileIO]]:
    """Its reading end, and its writing end."""
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as gives, open(writing, "wb", buffering=0) as takes:
        yield gives, takes


def test_a_read_of_a_pipe_that_stays_open_ends_with_what_went_wrong_meanwhile(
    pipe: tuple[FileIO, FileIO],
) -> None:
    gives, takes = pipe
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            takes.write(b"a line\nhalf a")
        else:
            raise LedgerError("the writer has failed")

    lines = watched(gives, check)
    assert lines.readline() == b"a line\n"
    with pytest.raises(LedgerError, match="the writer has failed"):
        lines.readline()
    assert looks == 2


def test_nobody_is_asked_while_the_input_gives_something_and_it_ends_where_the_pipe_does(
    pipe: tuple[FileIO, FileIO],
) -> None:
    gives, takes = pipe
    takes.write(b"one\ntwo")
    takes.close()
    assert watched(gives, lambda: pytest.fail("nothing was to be waited for")).readlines() == [
        b"one\n",
        b"two",
    ]


def test_a_file_is_read_from_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\ntwo\n")
    with (tmp_path / "file").open("rb") as file:
        os.lseek(file.fileno(), 4, os.SEEK_SET)
        assert watched(file, lambda: None).read() == b"two\n"
