"""The example programs do what they say, against real bookies."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bookledger import LedgerClient
from tests.support.waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = 100
SECONDS_MAX = 120


CLOSING = re.compile(r"closing ledger \d+ waits for [^\n]*\n")
"""What a busy machine makes the client say."""


class Program:
    """An example that runs, and is talked to in lines."""

    def __init__(self, uri: str, name: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLES / name), *arguments],
            env={**os.environ, "BOOKLEDGER_METADATA": uri},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hears(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def ends(self) -> tuple[int, str, str]:
        """Exit code, what else it said, and what it said on stderr."""
        said, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, said, errors

    def all_else(self) -> str:
        """What it said before it was killed, behind the lines that `says` gave: `communicate` would leave out what was
        read together with those."""
        assert self.process.stdout is not None
        return self.process.stdout.read()


@contextmanager
def program(uri: str, name: str, *arguments: str) -> Iterator[Program]:
    running = Program(uri, name, *arguments)
    with running.process:
        try:
            yield running
        finally:
            running.process.kill()


def ran(uri: str, name: str, *arguments: str, lines: str = "") -> str:
    with program(uri, name, *arguments) as one:
        said, errors = one.process.communicate(lines, timeout=SECONDS_MAX)
        assert (one.process.returncode, CLOSING.sub("", errors)) == (0, "")
    return said


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_told_of(path: Path) -> None:
    assert len(path.read_text().splitlines()) < LINES_MAX
    assert path.name in (EXAMPLES / "README.md").read_text()


def test_a_key_value_store_fails_over_and_the_first_process_may_write_no_more(uri: str) -> None:
    with program(uri, "key_value_store.py", "colors") as first:
        assert first.says() == "ready, with 0 values"
        for line, answer in (("set sky blue", "ok"), ("set sea light green", "ok"), ("get moon", "(none)")):
            first.hears(line)
            assert first.says() == answer
        with program(uri, "key_value_store.py", "colors") as second:
            assert second.says() == "ready, with 2 values"
            second.hears("get sea")
            assert second.says() == "light green"
            first.hears("set sky black")
            assert first.ends() == (1, "", "another process has taken over\n")
            second.hears("get sky")
            assert second.says() == "blue"
            second.hears("set sky grey")
            assert second.says() == "ok"
            assert second.ends() == (0, "", "")
    with program(uri, "key_value_store.py", "colors") as third:
        assert third.says() == "ready, with 2 values"
        third.hears("get sky")
        assert third.says() == "grey"


def test_a_key_value_store_that_was_killed_has_all_it_answered(uri: str) -> None:
    with program(uri, "key_value_store.py", "killed") as first:
        first.says()
        for number in range(20):
            first.hears(f"set key{number} {number}")
            assert first.says() == "ok"
        first.process.kill()
    with program(uri, "key_value_store.py", "killed") as second:
        assert second.says() == "ready, with 20 values"


@pytest.fixture
def key_value_store(uri: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example as a module."""
    monkeypatch.setenv("BOOKLEDGER_METADATA", uri)
    return runpy.run_path(str(EXAMPLES / "key_value_store.py"), run_name="example")


def test_a_key_value_store_is_taken_over_by_a_standby_whose_ledger_has_the_lower_id(
    uri: str, key_value_store: Any
) -> None:
    """A client takes ids in blocks: that of the standby is older than the leader's."""
    store_of = key_value_store["KeyValueStore"]
    with LedgerClient(uri) as standby, LedgerClient(uri) as client:
        for _ in range(2):
            standby.create_ledger().close()
        store_of(client.log("blocks", create=True)).set("by", "the leader")
        assert store_of(standby.log("blocks")).values == {"by": "the leader"}


def test_a_follower_sees_events_while_they_are_published_and_those_of_the_next_publisher(uri: str) -> None:
    with program(uri, "event_log.py", "follow", "news") as follower:
        with program(uri, "event_log.py", "publish", "news") as publisher:
            for event in ("one", "two"):
                publisher.hears(event)
                assert follower.says() == event
            assert publisher.ends() == (0, "", "")
        ran(uri, "event_log.py", "publish", "news", lines="three\nfour\n")
        assert [follower.says(), follower.says()] == ["three", "four"]
        follower.process.send_signal(signal.SIGINT)
        assert follower.ends() == (130, "", "")
    with program(uri, "event_log.py", "follow", "news") as late:
        assert [late.says() for _ in range(4)] == ["one", "two", "three", "four"]


def test_jobs_are_done_once_each_and_a_workers_death_leaves_them_to_the_next(uri: str) -> None:
    ran(uri, "work_queue.py", "put", "mail", lines="".join(f"job {n}\n" for n in range(50)))
    with program(uri, "work_queue.py", "work", "mail") as worker:
        done = [worker.says() for _ in range(10)]
        worker.process.kill()
        done += worker.all_else().splitlines()
    ran(uri, "work_queue.py", "put", "mail", lines="job 50\n")
    done_by_next = ran(uri, "work_queue.py", "work", "mail").splitlines()
    assert sorted({*done, *done_by_next}) == sorted(f"doing job {n}" for n in range(51))
    assert len(done) + len(done_by_next) <= 52, "only the job that the death cut short may be done twice"
    assert ran(uri, "work_queue.py", "work", "mail") == ""


def test_the_jobs_of_a_producer_that_died_are_done(uri: str) -> None:
    with program(uri, "work_queue.py", "put", "dead") as producer, LedgerClient(uri) as client:
        producer.hears("first")
        log = client.log("dead.jobs", create=True)
        until(lambda: log.end() == 1)
        producer.process.kill()
    ran(uri, "work_queue.py", "put", "dead", lines="second\n")
    assert ran(uri, "work_queue.py", "work", "dead") == "doing first\ndoing second\n"


def test_a_second_publisher_takes_a_topic_over(uri: str) -> None:
    with program(uri, "event_log.py", "follow", "taken") as follower:
        with program(uri, "event_log.py", "publish", "taken") as first:
            first.hears("one")
            assert follower.says() == "one"
            ran(uri, "event_log.py", "publish", "taken", lines="two\n")
            first.hears("three")
            assert first.ends() == (1, "", "another publisher has taken over\n")
        ran(uri, "event_log.py", "publish", "taken", lines="four\n")
        assert [follower.says(), follower.says()] == ["two", "four"]


def test_ingestion_keeps_every_record_in_segments_of_a_fixed_size(uri: str) -> None:
    said = ran(uri, "ingest.py", "ingested", "20", "1500")
    assert re.fullmatch(r"30000 records in [23] ledgers, \d+ MB/s\n", said)
    with LedgerClient(uri) as client:
        read = [record.payload for record in client.log("ingested").read()]
    heads = [tuple(map(int, payload.split()[0].split(b":"))) for payload in read]
    assert sorted(heads) == [(name, number) for name in range(20) for number in range(1500)]


def test_a_journal_is_followed_while_it_is_written_and_taken_over(uri: str) -> None:
    with program(uri, "edits.py", "follow", "ns1", "35") as follower:
        assert ran(uri, "edits.py", "write", "ns1", "25") == "1 to 10\n11 to 20\n21 to 25\n"
        assert [follower.says() for _ in range(25)] == [f"{txid} /files/{txid}" for txid in range(1, 26)]
        assert ran(uri, "edits.py", "write", "ns1", "10") == "26 to 35\n"
        code, said, errors = follower.ends()
    assert (code, errors) == (0, "")
    assert said.splitlines() == [f"{txid} /files/{txid}" for txid in range(26, 36)]
