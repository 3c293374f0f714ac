"""What a writer knows of producers: the last record of each, as it was appended, and as it is confirmed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from hashlib import blake2b

from metadata.records.logs.producer_record import (
    DIGEST_BYTES,
    FORGOTTEN_MAX,
    PRODUCERS_MAX,
    Last,
    ProducerSnapshot,
)

from .errors import ProducerForgotten, SequenceTooOld

NOTHING = ProducerSnapshot()

SECONDS_MAX = 30 * 86_400.0
"""A producer that was not heard of for so long is forgotten."""


class ProducerMemory:
    """The memory of one writer. `take` may be called from another thread than the rest.

    Two memories that were told the same records know the same, whoever told them.
    """

    def __init__(self, snapshot: ProducerSnapshot = NOTHING) -> None:
        self._confirmed = dict(snapshot.producers)  # the one heard of the longest ago first
        self._forgotten = dict.fromkeys(snapshot.forgotten)
        self.forgotten_count = snapshot.forgotten_count
        self._pending: deque[tuple[str, int, Last]] = deque()  # with the first position of each
        self._taken: dict[str, Last] = {}  # the last pending one of each
        self._lock = threading.Lock()

    def last(self, producer: str) -> Last | None:
        """The producer's last record, confirmed or not."""
        return self._taken.get(producer) or self._confirmed.get(producer)

    def take(self, producer: str, sequence: int, count: int, position: int) -> range:
        """Takes in so many records from this sequence on, of which the first new one gets the position.

        Returns the positions of those that are there already, which are the first of them. Raises SequenceTooOld, also
        where the later one is not confirmed yet, or ProducerForgotten; then none is taken in.
        """
        if not count:
            return range(0)
        with self._lock:
            last = self.last(producer)
            earlier = self._earlier(last, producer, sequence, count)
            if new := count - len(earlier):
                self._add(producer, sequence + count - 1, position, new, last)
            return earlier

    def _earlier(self, last: Last | None, producer: str, sequence: int, count: int) -> range:
        if last is None and _digest(producer) in self._forgotten:
            raise ProducerForgotten(producer)
        if last is None or sequence > last.sequence:
            return range(0)
        is_in_run = last.sequence - last.run < sequence and (count > 1 or sequence == last.sequence)
        if not is_in_run or sequence + count - 1 < last.sequence:
            raise SequenceTooOld(producer, sequence, last.sequence, last.position)
        return range(last.position - (last.sequence - sequence), last.position + 1)

    def _add(self, producer: str, sequence: int, position: int, count: int, last: Last | None) -> None:
        """`sequence`: of the last of so many new records, the first of which has the position."""
        added = Last(sequence, position + count - 1, _run(last, sequence, position, count), 0)
        self._pending.append((producer, position, added))
        self._taken[producer] = added

    def confirmed(self, end: int, time_us: int) -> None:
        """All records before this position are confirmed."""
        with self._lock:
            while self._pending and self._pending[0][1] < end:
                producer, _, last = self._pending[0]
                over = max(0, last.position + 1 - end)  # of it are still to be confirmed
                self._hear(producer, last.sequence - over, last.position - over, last.run - over, time_us)
                if over:
                    self._pending[0] = (producer, end, last)
                    return
                self._pending.popleft()
                if self._taken[producer] is last:
                    del self._taken[producer]

    def read(
        self, producers: Sequence[str | None], sequences: Sequence[int | None], first: int, time_us: int
    ) -> None:
        """Takes in records as they are in the log, from this position on."""
        for position, (producer, sequence) in enumerate(zip(producers, sequences, strict=True), first):
            if producer is not None and sequence is not None:
                run = _run(self._confirmed.get(producer), sequence, position, 1)
                self._hear(producer, sequence, position, run, time_us)

    def _hear(self, producer: str, sequence: int, position: int, run: int, time_us: int) -> None:
        self._confirmed.pop(producer, None)
        self._confirmed[producer] = Last(sequence, position, run, time_us)
        if len(self._confirmed) > PRODUCERS_MAX:
            self._forget(next(iter(self._confirmed)))

    def _forget(self, producer: str) -> None:
        del self._confirmed[producer]
        self._forgotten[_digest(producer)] = None
        self.forgotten_count += 1
        if len(self._forgotten) > FORGOTTEN_MAX:
            del self._forgotten[next(iter(self._forgotten))]

    def snapshot(self, time_us: int) -> ProducerSnapshot:
        """What is confirmed at this time. Forgets those that were not heard of for long."""
        with self._lock:
            since = time_us - int(SECONDS_MAX * 1_000_000)
            for producer in [one for one, last in self._confirmed.items() if last.heard_us < since]:
                self._forget(producer)
            return ProducerSnapshot(
                tuple(self._confirmed.items()), tuple(self._forgotten), self.forgotten_count
            )


def _run(last: Last | None, sequence: int, position: int, count: int) -> int:
    """The run that so many records make longer, or begin. `sequence`: of the last of them; `position`: of the first."""
    goes_on = last is not None and (last.sequence, last.position) == (sequence - count, position - 1)
    return count + (last.run if last is not None and goes_on else 0)


def _digest(producer: str) -> bytes:
    return blake2b(producer.encode(), digest_size=DIGEST_BYTES).digest()
