"""The example programs do what they say, against real bookies."""

from __future__ import annotations

import re
import runpy
import signal
from pathlib import Path
from typing import Any

import pytest

from bookledger import LedgerClient
from bookledger.errors import LeadershipLost
from tests.examples.programs import EXAMPLES, SECONDS_MAX, program
from tests.support.waiting import until

LINES_MAX = 100


CLOSING = re.compile(r"closing ledger \d+ waits for [^\n]*\n")
"""What a busy machine makes the client say."""


def ran(uri: str, name: str, *arguments: str, lines: str = "") -> str:
    with program(uri, name, *arguments) as one:
        said, errors = one.process.communicate(lines, timeout=SECONDS_MAX)
        assert (one.process.returncode, CLOSING.sub("", errors)) == (0, "")
    return said


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_told_of(path: Path) -> None:
    assert len(path.read_text().splitlines()) < LINES_MAX
    assert path.name in (EXAMPLES / "README.md").read_text()


def test_a_key_value_store_that_stands_by_takes_over_from_one_that_ends(uri: str) -> None:
    with program(uri, "key_value_store.py", "colors") as first:
        assert first.says() == "ready, with 0 values"
        with program(uri, "key_value_store.py", "colors") as second:
            changes = ("set sky blue", "ok"), ("set sea light green", "ok")
            for line, answer in (*changes, ("get moon", "(none)")):
                first.hears(line)
                assert first.says() == answer
            assert first.ends() == (0, "", "")
            assert second.says() == "ready, with 2 values"
            second.hears("get sea")
            assert second.says() == "light green"


def test_a_key_value_store_that_hangs_is_followed_and_writes_no_more(uri: str) -> None:
    with program(uri, "key_value_store.py", "hung") as first:
        first.says()
        first.hears("set sky blue")
        assert first.says() == "ok"
        first.process.send_signal(signal.SIGSTOP)
        with program(uri, "key_value_store.py", "hung") as second:
            assert second.says() == "ready, with 1 values"
            first.process.send_signal(signal.SIGCONT)
            first.hears("set sky black")
            code, said, errors = first.ends()
            assert (code, said, errors.splitlines()[-1]) == (1, "", "another process has taken over")
            second.hears("get sky")
            assert second.says() == "blue"


def test_a_key_value_store_that_was_killed_has_all_it_answered(uri: str) -> None:
    with program(uri, "key_value_store.py", "killed") as first:
        first.says()
        for number in range(20):
            first.hears(f"set key{number} {number}")
            assert first.says() == "ok"
        first.process.kill()
    with program(uri, "key_value_store.py", "killed") as second:
        assert second.says() == "ready, with 20 values"


def test_a_key_value_store_gives_up_the_changes_before_its_snapshot(uri: str) -> None:
    with program(uri, "key_value_store.py", "snapshots") as first:
        first.says()
        for number in range(220):
            first.hears(f"set key{number % 7} {number}")
            assert first.says() == "ok"
        first.process.kill()
    with LedgerClient(uri) as client:
        assert client.log("snapshots").first_position() == 201, "the second snapshot's"
    with program(uri, "key_value_store.py", "snapshots") as second:
        assert second.says() == "ready, with 7 values"
        second.hears("get key2")
        assert second.says() == "219"


def test_readings_are_stored_once_and_worked_on_by_a_group(uri: str) -> None:
    lines = [f"{number} sensor{number % 5} {number}\n" for number in range(1, 41)]
    answers = ran(uri, "pipeline.py", "feed", "plant", "north", lines="".join(lines[:30]))
    assert sorted(map(int, answers.split())) == [*range(1, 31)]
    answers = ran(uri, "pipeline.py", "feed", "plant", "north", lines="".join(lines[20:]))
    assert sorted(map(int, answers.split())) == [*range(21, 41)]
    seen: list[str] = []
    with program(uri, "pipeline.py", "work", "plant") as worker:
        seen += [worker.says() for _ in range(10)]
        worker.process.kill()
        seen += worker.all_else().splitlines()
    with program(uri, "pipeline.py", "work", "plant") as another:
        while len({*seen}) < 40:
            seen.append(another.says())
        another.process.send_signal(signal.SIGINT)
        assert another.ends()[0] == 130
    assert {*seen} == {" ".join(line.split()[1:]) for line in lines}
    with LedgerClient(uri) as client:
        assert sum(client.log(f"plant.{n}").end() for n in range(4)) == 40, "each is stored once"


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
        with client.election("blocks").lead() as term:
            led = store_of(client.log("blocks", create=True), term)
            led.set("by", "the leader")
        with standby.election("blocks").lead() as term:
            assert store_of(standby.log("blocks"), term).get("by") == "the leader"
        with pytest.raises(LeadershipLost):
            led.get("by")


def test_a_consumer_sees_events_while_they_are_published_and_goes_on_where_it_stopped(uri: str) -> None:
    with program(uri, "event_log.py", "consume", "news", "billing") as consumer:
        with program(uri, "event_log.py", "publish", "news") as publisher:
            for position, event in enumerate(("one", "two")):
                publisher.hears(event)
                assert (publisher.says(), consumer.says()) == (str(position), event)
            assert publisher.ends() == (0, "", "")
        assert ran(uri, "event_log.py", "publish", "news", lines="three\n") == "2\n"
        assert consumer.says() == "three"
        with LedgerClient(uri) as client:
            log = client.log("news")
            assert log.retention.age_seconds == 7 * 24 * 3600
            until(lambda: [cursor.position for _, cursor in log.cursors()] == [3])
        consumer.process.send_signal(signal.SIGINT)
        assert consumer.ends() == (130, "", "")
    ran(uri, "event_log.py", "publish", "news", lines="four\n")
    for name, events in (("billing", ["four"]), ("search", ["one", "two", "three", "four"])):
        with program(uri, "event_log.py", "consume", "news", name) as late:
            assert [late.says() for _ in events] == events


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
    with program(uri, "event_log.py", "publish", "taken") as first:
        first.hears("one")
        assert first.says() == "0"
        ran(uri, "event_log.py", "publish", "taken", lines="two\n")
        first.hears("three")
        assert first.ends() == (1, "", "another publisher has taken over\n")
    with LedgerClient(uri) as client:
        assert [record.payload for record in client.log("taken").read()] == [b"one", b"two"]


def test_a_sale_that_is_said_again_counts_once_and_each_answer_has_all_that_was_sold(uri: str) -> None:
    with program(uri, "ingest.py", "sold") as first:
        for till in range(20):
            first.hears(f"till-{till} 1 {till}")
        answers = {tuple(first.says().split()) for _ in range(20)}
        assert {(till, total) for till, _, _, total in answers} == {(f"till-{n}", str(n)) for n in range(20)}
        first.process.kill()
    position = next(position for till, _, position, _ in answers if till == "till-7")
    with program(uri, "ingest.py", "sold") as second:
        for line, answer in (
            ("till-7 1 7", f"till-7 1 {position} 7"),
            ("till-7 2 100", "till-7 2 20 107"),
            ("till-7 1 7", f"till-7 1 {position} 107"),
            ("till-7 free of charge", "say: TILL NUMBER CENTS"),
        ):
            second.hears(line)
            assert second.says() == answer
        with program(uri, "ingest.py", "sold") as third:
            third.hears("till-8 2 1")
            assert third.says() == "till-8 2 21 9"
            second.hears("till-8 3 1")
            assert second.ends() == (1, "", "another process has taken over\n")
            assert third.ends() == (0, "", "")


def test_a_journal_is_followed_while_it_is_written_and_taken_over(uri: str) -> None:
    with program(uri, "edits.py", "follow", "ns1", "35") as follower:
        assert ran(uri, "edits.py", "write", "ns1", "25") == "1 to 10\n11 to 20\n21 to 25\n"
        assert [follower.says() for _ in range(25)] == [f"{txid} /files/{txid}" for txid in range(1, 26)]
        assert ran(uri, "edits.py", "write", "ns1", "10") == "26 to 35\n"
        code, said, errors = follower.ends()
    assert (code, errors) == (0, "")
    assert said.splitlines() == [f"{txid} /files/{txid}" for txid in range(26, 36)]
