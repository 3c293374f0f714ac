"""The proposer's programs over models of acceptors, without a loop: the test says who hears what."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from qjm_compat.config import JournalConfig
from qjm_compat.errors import JournalError, JournalUnavailable
from qjm_compat.manager.channel import Channel, Fail
from qjm_compat.manager.proposer import Proposer
from qjm_compat.manager.proposer_effects import Answers, CallAcceptors, Program, SetEpoch
from qjm_compat.requests import R, Request, SegmentState, SendEdits
from tests.qjm_compat.journals import NAMESPACE, frames
from tests.qjm_compat.model import ModelAcceptor, ModelDisk

NAMES = ("a", "b", "c")
ALL = frozenset(range(3))


class ThreeDisks:
    """What three acceptors keep; each has one process at a time."""

    def __init__(self) -> None:
        self.disks = {name: ModelDisk() for name in NAMES}
        self.acceptors = [ModelAcceptor("ns1", name, self.disks) for name in NAMES]

    def restart(self, number: int) -> None:
        self.acceptors[number] = ModelAcceptor("ns1", NAMES[number], self.disks)


class WriterByHand:
    """One writer: its proposer, its channels, and whom its calls reach."""

    def __init__(self, three: ThreeDisks, reaches: Collection[int] = ALL) -> None:
        config = JournalConfig()
        self.three = three
        self.reaches = frozenset(reaches)
        self.lost: Callable[[int, Request[Any]], bool] = lambda _, __: False
        self.asked: list[CallAcceptors] = []
        self.proposer = Proposer(NAMES, config)
        self.channels = [Channel(name, config) for name in NAMES]

    @property
    def by(self) -> str:
        return f"w{self.proposer.epoch}"

    def recover(self) -> SegmentState | None:
        return self.run(self.proposer.recover_unfinalized_segments(NAMESPACE))

    def start(self, txid: int) -> None:
        self.run(self.proposer.start_log_segment(txid, None))

    def send(self, segment_txid: int, first_txid: int, num_txns: int = 1) -> set[int]:
        """Who has the batch on disk; a majority commits it."""
        records = frames(first_txid, num_txns, self.by)
        request = SendEdits(
            segment_txid=segment_txid, first_txid=first_txid, num_txns=num_txns, records=records
        )
        answers = self._answers(request)
        if len(answers.replies) >= 2:
            for channel in self.channels:
                channel.set_committed(request.last_txid)
        return set(answers.replies)

    def finalize(self, start_txid: int, end_txid: int) -> None:
        self.run(self.proposer.finalize_log_segment(start_txid, end_txid))

    def run(self, steps: Program[R]) -> R:
        """A program of the proposer from its first question to its answer."""
        try:
            effect = next(steps)
            while True:
                match effect:
                    case CallAcceptors():
                        self.asked.append(effect)
                        effect = steps.send(self._answers(effect.request))
                    case SetEpoch(epoch):
                        for channel in self.channels:
                            channel.set_epoch(epoch)
                        effect = steps.send(None)
        except StopIteration as end:
            return cast("R", end.value)

    def _answers(self, request: Request[Any]) -> Answers[Any]:
        replies: dict[int, Any] = {}
        errors: dict[int, Exception] = {}
        for number in ALL:
            try:
                replies[number] = self._call(number, request)
            except JournalError as error:
                errors[number] = error
        return Answers(replies, errors)

    def _call(self, number: int, request: Request[Any]) -> Any:
        channel = self.channels[number]
        _, effects = channel.submit(request, 0.0)
        (effect,) = effects[-1:]
        if isinstance(effect, Fail):
            raise effect.error
        try:
            if number not in self.reaches or self.lost(number, request):
                raise JournalUnavailable(f"{NAMES[number]} does not answer")
            answer = self.three.acceptors[number].answer(effect.request)
        except JournalError:
            channel.failed(effect.call, 0.0)
            raise
        channel.answered(effect.call, 0.0)
        return answer
