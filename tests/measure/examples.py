"""Example programs, killed at random as bookies are: nothing that they confirmed is lost, and nothing is doubled
where it is to be stored once."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock, Timer

from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, Record
from tests.examples.programs import Program, program
from tests.measure.processes import killing
from tests.support.etcd import EtcdServer

SECONDS = 600.0
BOOKIES = 4
LIFE_SECONDS_MAX = 10.0
"""A process that stands by waits up to four seconds of them for its turn."""

LAST_LIFE_SECONDS_MAX = 60.0
"""In it all that was confirmed has to be seen."""

SEED = 50
KEYS = 8
TILLS = 20
READINGS = 20
"""So many are under way at a time."""

JOBS = 10
"""So many are put at a time."""

CONSUMERS = ("billing", "search", "audit")

Work = Callable[[Program], None]
"""Talks to a process until it has died."""


async def measure(scratch: Path, share: float) -> None:
    with EtcdServer(scratch) as etcd:
        await asyncio.to_thread(_measure, scratch, f"etcd://{etcd.endpoint}/shown", SECONDS * share)


def _measure(scratch: Path, uri: str, seconds: float) -> None:
    with bookie_processes(BOOKIES, scratch, uri, lease_seconds=3) as bookies, LedgerClient(uri) as client:
        shown: tuple[Shown, ...] = (Store(uri), Events(uri), Sales(uri), Pipeline(uri), Jobs(uri))
        over = time.monotonic() + seconds
        lives = [partial(one.live, over, *life) for one in shown for life in one.lives()]
        with killing(bookies) as kills, ThreadPoolExecutor(len(lives)) as threads:
            for ended in [threads.submit(live) for live in lives]:
                ended.result()
        for one in shown:
            told = one.judge(client)
            print(json.dumps({"what": one.example, **told, "ends": one.ends}), flush=True)
    print(json.dumps({"seconds": seconds, "bookies_killed": kills[0]}), flush=True)


class Shown(ABC):
    """One example: its processes, what is done with them, and what they have confirmed."""

    example: str
    log: str

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._chance = random.Random(f"{SEED} {self.example}")
        self._lock = Lock()
        self.ends: Counter[str] = Counter()

    @abstractmethod
    def lives(self) -> Sequence[tuple[Work, Sequence[str]]]:
        """Of each process that runs beside the others: what is done with it, and its arguments."""

    @abstractmethod
    def judge(self, client: LedgerClient) -> dict[str, int]:
        """Raises AssertionError for what is lost or doubled; counts what there was."""

    def live(self, over: float, work: Work, arguments: Sequence[str]) -> None:
        """One process after the other, until the time is over."""
        while (left := over - time.monotonic()) > 0:
            with self.mortal(min(left, self._chance.uniform(0, LIFE_SECONDS_MAX)), arguments) as one:
                work(one)

    @contextmanager
    def mortal(self, seconds: float, arguments: Sequence[str]) -> Iterator[Program]:
        """A process that is killed after so long. Saying something to a dead one ends the block."""
        with suppress(BrokenPipeError), program(self._uri, self.example, *arguments) as one:
            killer = Timer(seconds, one.process.kill)
            killer.start()
            try:
                yield one
            finally:
                killer.cancel()
                self._end(one)

    def _end(self, one: Program) -> None:
        one.process.kill()
        assert one.process.stderr is not None
        said = one.process.stderr.read().strip().rpartition("\n")[2]
        was_killed = one.process.wait() == -signal.SIGKILL
        with self._lock:
            self.ends["killed" if was_killed else said[:100]] += 1


class Store(Shown):
    """Of two processes one leads, and has all that was answered before. The values of a key only grow."""

    example, log = "key_value_store.py", "values"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._said = self._leaders = 0
        self._answered = dict.fromkeys(range(KEYS), 0)

    def lives(self) -> Sequence[tuple[Work, Sequence[str]]]:
        return [(self._lead, [self.log])] * 2

    def _lead(self, one: Program) -> None:
        if self._has_all(one):
            while self._set(one):
                pass

    def _has_all(self, one: Program) -> bool:
        """False where it dies before it has told."""
        if not one.says():
            return False
        with self._lock:
            answered, self._leaders = dict(self._answered), self._leaders + 1
        for key, value in answered.items():
            one.hears(f"get {key}")
            if not (found := one.says()):
                return False
            self._settle(key, 0 if found == "(none)" else int(found), value)
        return True

    def _settle(self, key: int, found: int, answered: int) -> None:
        with self._lock:
            is_one = found == 0 or (found <= self._said and found % KEYS == key)
            assert is_one and found >= answered, f"key {key} has {found}, and {answered} was answered"
            self._answered[key] = max(found, self._answered[key])

    def _set(self, one: Program) -> bool:
        with self._lock:
            self._said += 1
            value = self._said
        one.hears(f"set {value % KEYS} {value}")
        if answer := one.says():
            assert answer == "ok", answer
            self._settle(value % KEYS, value, 0)
        return bool(answer)

    def judge(self, client: LedgerClient) -> dict[str, int]:
        with self.mortal(LAST_LIFE_SECONDS_MAX, [self.log]) as last:
            assert self._has_all(last), "nobody leads any more"
        first, end = client.log(self.log).first_position(), client.log(self.log).end()
        return {"leaders": self._leaders, "changes_and_snapshots": end, "given_up": first}


class Events(Shown):
    """A publisher and three consumers, each of which sees all events in order, and some again after a death."""

    example, log = "event_log.py", "events"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._said = 0
        self._published: dict[int, str] = {}
        self._seen: dict[str, list[list[str]]] = {name: [] for name in CONSUMERS}

    def lives(self) -> Sequence[tuple[Work, Sequence[str]]]:
        consumers = [(partial(self._consume, name), ["consume", self.log, name]) for name in CONSUMERS]
        return [(self._publish, ["publish", self.log]), *consumers]

    def _publish(self, one: Program) -> None:
        while self._publish_one(one):
            pass

    def _publish_one(self, one: Program) -> bool:
        self._said += 1
        one.hears(f"event {self._said}")
        if position := one.says():
            self._published[int(position)] = f"event {self._said}"
        return bool(position)

    def _consume(self, name: str, one: Program, last: str = "") -> None:
        seen: list[str] = []
        self._seen[name].append(seen)
        while event := one.says():
            seen.append(event)
            if event == last:
                break

    def judge(self, client: LedgerClient) -> dict[str, int]:
        with self.mortal(LAST_LIFE_SECONDS_MAX, ["publish", self.log]) as publisher:
            assert self._publish_one(publisher), "nobody publishes any more"
        events = [record.payload.decode() for record in _whole(client, self.log)]
        for name in CONSUMERS:
            with self.mortal(LAST_LIFE_SECONDS_MAX, ["consume", self.log, name]) as one:
                self._consume(name, one, events[-1])
        assert len(set(events)) == len(events), "an event is there twice"
        assert all(events[position] == event for position, event in self._published.items())
        again = [_seen_again(lives, events) for lives in self._seen.values()]
        return {"events": len(events), "published": len(self._published), "seen_again": sum(again)}


def _seen_again(lives: list[list[str]], events: list[str]) -> int:
    """How many events a consumer saw more than once. Raises AssertionError where it has left one out."""
    position_of = {event: position for position, event in enumerate(events)}
    end = again = 0
    for seen in filter(None, lives):
        first = position_of[seen[0]]
        assert first <= end, f"event {end} is left out"
        assert seen == events[first : first + len(seen)], f"events from {first} on are seen otherwise"
        again, end = again + end - first, max(end, first + len(seen))
    assert end == len(events), f"of {len(events)} events {end} are seen"
    return again


class Sales(Shown):
    """Tills: a sale that gets no answer is said again, and counts once. It has as many cents as its number."""

    example, log = "ingest.py", "sales"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._sold = {f"till-{n}": 0 for n in range(TILLS)}
        self._answers: list[tuple[int, str, int]] = []

    def lives(self) -> Sequence[tuple[Work, Sequence[str]]]:
        return [(self._sell, [self.log])]

    def _sell(self, one: Program) -> None:
        while self._sell_one_each(one):
            pass

    def _sell_one_each(self, one: Program) -> bool:
        said_us = time.time_ns() // 1000
        for till, number in self._sold.items():
            one.hears(f"{till} {number + 1} {number + 1}")
        for _ in self._sold:
            if not (answer := one.says()):
                return False
            self._note(answer.split(), said_us)
        return True

    def _note(self, answer: list[str], said_us: int) -> None:
        till, (number, position, total) = answer[0], map(int, answer[1:])
        assert number == self._sold[till] + 1
        assert total == number * (number + 1) // 2, f"{till} has sold {total} cents with sale {number}"
        self._sold[till] = number
        self._answers.append((position, f"{till} {number} {number}", said_us))

    def judge(self, client: LedgerClient) -> dict[str, int]:
        with self.mortal(LAST_LIFE_SECONDS_MAX, [self.log]) as last:
            assert self._sell_one_each(last), "nobody sells any more"
        sales, numbers = _whole(client, self.log), defaultdict[str, list[int]](list)
        for record in sales:
            till, number, _ = record.payload.decode().split()
            numbers[till].append(int(number))
        assert numbers == {till: [*range(1, sold + 1)] for till, sold in self._sold.items()}
        assert all(sales[position].payload.decode() == sale for position, sale, _ in self._answers)
        said_again = sum(sales[position].time < said_us for position, _, said_us in self._answers)
        return {"sales": len(sales), "said_again_and_stored_once": said_again}


class Pipeline(Shown):
    """A feed, whose readings are said again until they get an answer, and two workers that share them."""

    example, log = "pipeline.py", "readings"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._said = 0
        self._unanswered: set[int] = set()
        self._again = 0
        self._seen: Counter[str] = Counter()

    def lives(self) -> Sequence[tuple[Work, Sequence[str]]]:
        worker: tuple[Work, Sequence[str]] = (self._work, ["work", self.log])
        return [(self._feed, ["feed", self.log, "north"]), worker, worker]

    def _feed(self, one: Program) -> None:
        self._again += len(self._unanswered)
        while self._feed_some(one):
            pass

    def _feed_some(self, one: Program) -> bool:
        while len(self._unanswered) < READINGS:
            self._said += 1
            self._unanswered.add(self._said)
        for number in sorted(self._unanswered):
            one.hears(f"{number} sensor{number % KEYS} {number}")
        for _ in range(READINGS):
            if not (answer := one.says()):
                return False
            self._unanswered.remove(int(answer))
        return True

    def _work(self, one: Program) -> None:
        while reading := one.says():
            with self._lock:
                self._seen[reading] += 1

    def judge(self, client: LedgerClient) -> dict[str, int]:
        with self.mortal(LAST_LIFE_SECONDS_MAX, ["feed", self.log, "north"]) as last:
            assert self._feed_some(last), "nobody feeds any more"
        wanted = {f"sensor{number % KEYS} {number}" for number in range(1, self._said + 1)}
        with self.mortal(LAST_LIFE_SECONDS_MAX, ["work", self.log]) as worker:
            while len(self._seen) < len(wanted) and (reading := worker.says()):
                self._seen[reading] += 1
        assert self._seen.keys() == wanted, f"{len(wanted)} readings, and {len(self._seen)} were seen"
        stored = [
            (record.key, int(record.payload))
            for number in range(client.log_set(self.log).record.logs)
            for record in client.log_set(self.log).log(number).read()
        ]
        assert sorted(number for _, number in stored) == [*range(1, self._said + 1)]
        for sensor in {key for key, _ in stored}:
            numbers = [number for key, number in stored if key == sensor]
            assert numbers == sorted(numbers), f"readings of {sensor!r} are not in order"
        return {
            "readings": self._said,
            "said_again": self._again,
            "seen_again": self._seen.total() - len(wanted),
        }


class Jobs(Shown):
    """Whoever puts jobs, and a worker; jobs that were put are done, in order, and some again after a death."""

    example, log = "work_queue.py", "mail"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._said = 0
        self._put: list[int] = []
        self._done: list[int] = []

    def lives(self) -> Sequence[tuple[Work, Sequence[str]]]:
        return [(self._put_some, ["put", self.log]), (self._work, ["work", self.log])]

    def _put_some(self, one: Program) -> None:
        jobs = [*range(self._said, self._said + JOBS)]
        self._said += JOBS
        for job in jobs:
            one.hears(str(job))
        assert one.process.stdin is not None
        one.process.stdin.close()
        if one.process.wait() == 0:
            self._put += jobs

    def _work(self, one: Program) -> None:
        while said := one.says():
            self._done.append(int(said.removeprefix("doing ")))

    def judge(self, client: LedgerClient) -> dict[str, int]:
        with self.mortal(LAST_LIFE_SECONDS_MAX, ["put", self.log]) as last:
            self._put_some(last)
        with self.mortal(LAST_LIFE_SECONDS_MAX, ["work", self.log]) as last:
            self._work(last)
        first_times = list(dict.fromkeys(self._done))
        assert self._said - 1 in self._put and {*self._put} <= {*first_times}, "a job is lost"
        assert first_times == sorted(first_times), "jobs are not done in order"
        return {"put": len(self._put), "done": len(first_times), "again": len(self._done) - len(first_times)}


def _whole(client: LedgerClient, log: str) -> list[Record]:
    """Takes it over first: of a writer that was killed nobody else knows through where it confirmed."""
    client.log(log).writer().close()
    records = list(client.log(log).read())
    assert [record.position for record in records] == list(range(len(records))), f"{log} has holes"
    return records
