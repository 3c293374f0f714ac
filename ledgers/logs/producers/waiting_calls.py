"""Calls that wait before their records are accepted. Each producer's calls are accepted in order; if one fails, so do
those queued after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...errors import MetadataUnavailable
from ..errors import OutOfOrderSequence


@dataclass(slots=True, eq=False)
class WaitingCall:
    """One waiting call. `failure`: the error of an earlier call by the same producer, if that call was not accepted."""

    producer: str
    sequence: int
    failure: BaseException | None = None

    def raise_if_behind_failure(self) -> None:
        if isinstance(self.failure, MetadataUnavailable):
            raise self.failure
        if self.failure is not None:
            raise OutOfOrderSequence(self.producer, self.sequence) from self.failure


class WaitingCalls:
    """One writer's waiting calls. If several threads use this object, they must hold a common lock while they do so."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[WaitingCall]] = {}

    def is_next(self, call: WaitingCall) -> bool:
        """Returns whether no other call of the same producer is queued before this one."""
        return self._calls[call.producer][0] is call

    @contextmanager
    def call(self, producer: str, sequence: int) -> Iterator[WaitingCall]:
        """Queues a call, which waits inside the `with` block and is accepted right after it. If the call fails inside
        the block, all calls of the producer that are queued after it fail."""
        call = WaitingCall(producer, sequence)
        calls = self._calls.setdefault(producer, deque())
        calls.append(call)
        try:
            yield call
        except BaseException as error:
            for behind in list(calls)[calls.index(call) + 1 :]:
                behind.failure = behind.failure or error
            raise
        finally:
            calls.remove(call)
            if not calls:
                del self._calls[producer]
