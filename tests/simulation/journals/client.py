"""What a writer or a reader needs: channels to all acceptors, and scripts that wait for quorums of answers.

A script is a generator: it yields the product's effects (`CallAcceptors`, `SetEpoch`), `Sleep`, `Settle` and `Fetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ledgers.protocol.quorum import Outcome
from qjm_compat.config import JournalConfig
from qjm_compat.errors import JournalError, LoggerTooFarBehind
from qjm_compat.manager.channel import Channel, ChannelEffect, SendCall
from qjm_compat.manager.proposer_effects import Answers, CallAcceptors, Need, SetEpoch
from qjm_compat.requests import (
    GetEditLogManifest,
    GetJournaledEdits,
    GetStorageInfo,
    Request,
)

from .network import Line
from .probes import JournalProbe
from .site import Host, Site

READS = frozenset({GetEditLogManifest, GetJournaledEdits, GetStorageInfo})

Script = Generator[Any, Any, None]


@dataclass(frozen=True, slots=True)
class Sleep:
    """→ None, after so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Settle:
    """→ Answers: of calls that were made before."""

    calls: Calls
    seconds_max: float


class Calls:
    """One request to every acceptor, and what they have said so far."""

    __slots__ = ("changed", "errors", "replies")

    def __init__(self) -> None:
        self.replies: dict[int, Any] = {}
        self.errors: dict[int, Exception] = {}
        self.changed: list[Callable[[], None]] = []

    def end(self, number: int, answer: Any, error: JournalError | None) -> None:
        if error is None:
            self.replies[number] = answer
        else:
            self.errors[number] = error
        for tell in tuple(self.changed):
            tell()

    @property
    def answers(self) -> Answers[Any]:
        return Answers(dict(self.replies), dict(self.errors))


class Client:
    """One manager's channels to all acceptors, driven as `LoggerSet` drives them."""

    def __init__(self, site: Site, host: Host, lines: Sequence[Line], config: JournalConfig) -> None:
        self.site = site
        self.host = host
        self.config = config
        self.lines = tuple(lines)
        self.channels = [Channel(f"a{n}", config) for n in range(len(lines))]
        self._waiting: list[dict[int, Calls]] = [{} for _ in lines]

    def call(self, request: Request[Any]) -> Calls:
        """Asks every acceptor, each in its turn."""
        calls = Calls()
        for number, line in enumerate(self.lines):
            if type(request) in READS:
                line.call(request, partial(calls.end, number))
            else:
                call, effects = self.channels[number].submit(request, self.site.now)
                self._waiting[number][call] = calls
                self._perform(number, effects)
        return calls

    def close(self) -> None:
        """What is under way here is given up."""
        for line in self.lines:
            line.close()

    def _perform(self, number: int, effects: list[ChannelEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SendCall):
                done = partial(self._ended, number, effect.call, effect.request)
                self.lines[number].call(effect.request, done)
            else:
                self._end(number, effect.call, None, effect.error)
                behind = isinstance(effect.error, LoggerTooFarBehind)
                self.site.reached(JournalProbe.TOO_FAR_BEHIND if behind else JournalProbe.OUT_OF_SYNC)

    def _ended(
        self, number: int, call: int, request: Request[Any], answer: Any, error: JournalError | None
    ) -> None:
        """In the order of `Logger._make`."""
        channel = self.channels[number]
        if error is not None:
            self._end(number, call, None, error)
            self._perform(number, channel.failed(call, self.site.now))
        else:
            effects = channel.answered(call, self.site.now)
            self._end(number, call, answer, None)
            self._perform(number, effects)

    def _end(self, number: int, call: int, answer: Any, error: JournalError | None) -> None:
        calls = self._waiting[number].pop(call, None)
        if calls is not None:
            calls.end(number, answer, error)


class Driver:
    """Runs one script in one process. It ends with the script, or with the process."""

    def __init__(self, site: Site, host: Host, script: Script) -> None:
        self.site = site
        self.host = host
        self.client: Client | None = None
        self.is_done = False
        self._script = script
        self._turn = 0

    def start(self, delay: float) -> None:
        self.site.within(self.host, delay, self.resume, None)

    def resume(self, outcome: Any) -> None:
        """On to the next thing to wait for."""
        self._turn += 1
        while True:
            try:
                effect = self._script.send(outcome)
            except StopIteration:
                self.is_done = True
                return
            match effect:
                case SetEpoch(epoch):
                    assert self.client is not None
                    for channel in self.client.channels:
                        channel.set_epoch(epoch)
                    self.site.checks.became_writer(epoch)
                    outcome = None
                case CallAcceptors(_, request, need, seconds_max):
                    assert self.client is not None
                    if self._wait(self.client.call(request), need, seconds_max):
                        return
                    outcome = self._answers
                case Settle(calls, seconds_max):
                    if self._wait(calls, Need.MAJORITY, seconds_max):
                        return
                    outcome = self._answers
                case Sleep(seconds):
                    self.site.within(self.host, seconds, self._woken, self._turn)
                    return

    def _wait(self, calls: Calls, need: Need, seconds_max: float) -> bool:
        """Whether there is anything to wait for; the answers are in `_answers` then or later."""
        assert self.client is not None
        acceptors = len(self.client.lines)
        self._answers = calls.answers
        if self._answers.outcome(need, acceptors) is not Outcome.PENDING:
            return False
        turn = self._turn
        needed = acceptors // 2  # below that nothing can be decided

        def changed() -> None:
            if len(calls.replies) + len(calls.errors) < needed:
                return
            answers = calls.answers
            if answers.outcome(need, acceptors) is not Outcome.PENDING:
                calls.changed.remove(changed)
                # Never in the middle of what a channel does: its shell resumes a task, too.
                self.site.within(self.host, 0.0, self._answered, turn, calls)

        calls.changed.append(changed)
        self.site.within(self.host, seconds_max, self._answered, turn, calls)
        return True

    def _answered(self, turn: int, calls: Calls) -> None:
        if turn == self._turn:
            self.resume(calls.answers)

    def _woken(self, turn: int) -> None:
        if turn == self._turn:
            self.resume(None)
