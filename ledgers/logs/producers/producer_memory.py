"""The producer state that a writer keeps: the latest runs of each producer's records, confirmed or not."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b

from metadata.records.logs.producer_record import (
    DIGEST_BYTES,
    EARLIER_RUNS_MAX,
    FORGOTTEN_MAX,
    PRODUCERS_MAX,
    RUNS_OF_ONE_MAX,
    Heard,
    ProducerSnapshot,
    Run,
)
from metadata.records.logs.segment import POSITION_MAX

from ..errors import ProducerForgotten, SequenceTooOld

NOTHING = ProducerSnapshot()

SECONDS_MAX = 30 * 86_400.0
"""A producer that has appended nothing for this long is forgotten."""


class ProducerMemory:
    """The producer state of one writer. `take` may be called from a different thread than the other methods.

    Two memories that have received the same records are equal, whichever writers held them.
    """

    def __init__(self, snapshot: ProducerSnapshot = NOTHING) -> None:
        self._confirmed = {  # ordered by last append, oldest first
            name: heard.copy() for name, heard in snapshot.producers
        }
        later = [(run.position, name) for name, heard in snapshot.producers for run in heard.runs[1:]]
        self._earlier = dict(sorted(later))
        """The producer of each run except its last one, in order of the position where the producer's next run
        begins."""
        self._forgotten = dict.fromkeys(snapshot.forgotten)
        self.forgotten_count = snapshot.forgotten_count
        self._pending: deque[tuple[str, Run]] = deque()  # the first run is cut to its unconfirmed part
        self._taken: dict[str, deque[Run]] = {}  # each producer's pending runs; the first is not cut
        self._lock = threading.Lock()

    def last_sequence(self, producer: str) -> int | None:
        """Returns the sequence of the producer's last record, confirmed or not."""
        last = self._last(producer)
        return None if last is None else last.last_sequence

    def _last(self, producer: str) -> Run | None:
        if taken := self._taken.get(producer):
            return taken[-1]
        known = self._confirmed.get(producer)
        return None if known is None else known.runs[-1]

    def take(self, producer: str, sequence: int, count: int, position: int) -> Sequence[int]:
        """Adds `count` records with sequences from `sequence` on; the first new record gets the position `position`.

        Returns the positions of the records that already exist, which are always the first ones. Raises
        ProducerForgotten, or SequenceTooOld (even if the producer's record with a later sequence is not confirmed yet);
        in both cases no record is added.
        """
        if not count:
            return ()
        with self._lock:
            earlier = self._positions(producer, sequence, count)
            if new := count - len(earlier):
                self._add(producer, Run(sequence + len(earlier), position, new))
            return earlier

    def _add(self, producer: str, run: Run) -> None:
        self._pending.append((producer, run))
        self._taken.setdefault(producer, deque()).append(run)

    def _positions(self, producer: str, sequence: int, count: int) -> Sequence[int]:
        """Returns the positions of the records that already exist."""
        last = self._last(producer)
        if last is None and _digest(producer) in self._forgotten:
            raise ProducerForgotten(producer)
        if last is None or sequence > last.last_sequence:
            return ()
        known = self._confirmed.get(producer)
        runs = [*(known.runs if known is not None else ()), *self._taken.get(producer, ())]
        found = []
        for wanted in range(sequence, min(sequence + count, last.last_sequence + 1)):
            run = runs[bisect_right(runs, Run(wanted, POSITION_MAX, 0)) - 1]
            if not 0 <= wanted - run.sequence < run.records:
                raise SequenceTooOld(producer, sequence, last.last_sequence, last.position + last.records - 1)
            found.append(run.position + wanted - run.sequence)
        return found

    def confirmed(self, end: int, time_us: int) -> None:
        """Notes that all records before this position are confirmed."""
        with self._lock:
            while self._pending and self._pending[0][1].position < end:
                producer, (sequence, position, count) = self._pending[0]
                now = min(count, end - position)
                self._hear(producer, Run(sequence, position, now), time_us)
                if now < count:
                    self._pending[0] = producer, Run(sequence + now, position + now, count - now)
                    return
                self._pending.popleft()
                self._taken[producer].popleft()
                if not self._taken[producer]:
                    del self._taken[producer]

    def read(
        self, producers: Sequence[str | None], sequences: Sequence[int | None], first: int, time_us: int
    ) -> None:
        """Adds records that were read from the log, starting at position `first`."""
        for position, (producer, sequence) in enumerate(zip(producers, sequences, strict=True), first):
            if producer is not None and sequence is not None:
                self._hear(producer, Run(sequence, position, 1), time_us)

    def _hear(self, producer: str, run: Run, time_us: int) -> None:
        known = self._confirmed.pop(producer, None)
        # A sequence that does not rise means that the log had forgotten the producer.
        if known is None or run.sequence <= known.runs[-1].last_sequence:
            self._drop_all_earlier(known)
            known = Heard([run], time_us)
        elif known.runs[-1].goes_on_in(run):
            known.runs[-1] = known.runs[-1]._replace(records=known.runs[-1].records + run.records)
        else:
            known.runs.append(run)
            self._earlier[run.position] = producer
        known.heard_us = time_us
        self._confirmed[producer] = known
        self._keep_bounds(known)

    def _keep_bounds(self, heard: Heard) -> None:
        if len(heard.runs) > RUNS_OF_ONE_MAX:
            self._drop_earliest(heard)
        elif len(self._earlier) > EARLIER_RUNS_MAX:
            self._drop_earliest(self._confirmed[next(iter(self._earlier.values()))])
        if len(self._confirmed) > PRODUCERS_MAX:
            self._forget(next(iter(self._confirmed)))

    def _drop_earliest(self, known: Heard) -> None:
        known.runs.pop(0)
        del self._earlier[known.runs[0].position]

    def _drop_all_earlier(self, known: Heard | None) -> None:
        while known is not None and len(known.runs) > 1:
            self._drop_earliest(known)

    def _forget(self, producer: str) -> None:
        self._drop_all_earlier(self._confirmed.pop(producer))
        self._forgotten[_digest(producer)] = None
        self.forgotten_count += 1
        if len(self._forgotten) > FORGOTTEN_MAX:
            del self._forgotten[next(iter(self._forgotten))]

    def snapshot(self, time_us: int) -> ProducerSnapshot:
        """Returns the confirmed state as of this time. Forgets producers that have not appended anything for a long
        time."""
        with self._lock:
            since = time_us - int(SECONDS_MAX * 1_000_000)
            for producer in [one for one, known in self._confirmed.items() if known.heard_us < since]:
                self._forget(producer)
            producers = [(one, known.copy()) for one, known in self._confirmed.items()]
            return ProducerSnapshot(tuple(producers), tuple(self._forgotten), self.forgotten_count)


def _digest(producer: str) -> bytes:
    return blake2b(producer.encode(), digest_size=DIGEST_BYTES).digest()
