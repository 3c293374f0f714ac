"""A copy that the system does not let its bookie read: neither whole nor damaged, for all who ask."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess
from ledgers import LedgerClient
from ledgers.errors import EntryUnreadable
from tests.support.command_line import bookledger, printed, told
from tests.support.processes import serving
from tests.support.waiting import until

DROPPED = "-dac_override,-dac_read_search"
EXEC = f"""
import os, sys
limits = ["--bounding-set={DROPPED}", "--inh-caps={DROPPED}"]
os.execvp("setpriv", ["setpriv", *limits, sys.executable, "-m", "bookledger", *sys.argv[1:]])
"""
WHY = "00000000.log: Permission denied; nothing is lost: give the file back to the bookie's user (`chown`)"


class OrdinaryBookie(BookieProcess):
    """Also where root runs the tests, the modes of files are in force for it."""

    if os.geteuid() == 0:
        program = ("-c", EXEC)


@pytest.fixture
def bookie(tmp_path: Path) -> Iterator[BookieProcess]:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("giving up root's rights needs setpriv")
    bookie = OrdinaryBookie("b1", tmp_path / "b1", f"sqlite://{tmp_path}/metadata.db", lease_seconds=2)
    bookie.format()
    with serving([bookie]):
        yield bookie


def test_a_copy_that_its_bookie_may_not_read_is_not_whole_and_says_so(bookie: BookieProcess) -> None:
    meta = f"--metadata={bookie.metadata_uri}"
    with LedgerClient(bookie.metadata_uri) as client:
        with client.create_ledger(ensemble_size=1) as writer:
            for _ in range(100):
                writer.append_async(b"x" * 100)
        check = ("ledger", "check", str(writer.ledger_id), meta)
        assert told(*check)["copy"] == "whole"
        segment = bookie.directory / "log" / "00000000.log"
        segment.chmod(0)
        with client.open_ledger(writer.ledger_id) as reader, pytest.raises(EntryUnreadable) as unreadable:
            list(reader.read())
        assert f"its copy could not be read: {WHY}" in str(unreadable.value)
        assert WHY in bookledger("bookie", "scrub", "b1", meta).stderr.decode()
        (copy,) = printed(*check, code=1)
        assert (copy["copy"], copy["may_lack"]) == ("lacking", "0 to 99")
        until(lambda: WHY in (printed(*check, code=1)[0]["why"] or ""))  # its registration says so soon
        segment.chmod(0o600)
        with client.open_ledger(writer.ledger_id) as reader:
            assert len(list(reader.read())) == 100
