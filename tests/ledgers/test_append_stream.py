"""One stream to one bookie: what waits together goes together, what breaks is told to every lane (rule W6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from bookie.wire import Ack, AppendReply, AppendRequest, Columns, LacStatement, Status, codec, of_payloads
from ledgers.append_stream import AppendStream, QueuedLane
from ledgers.config import MIB, ClientConfig
from metadata.ledger_record import BookieRef
from tests.support.aio import run, until_true

BOOKIE = BookieRef("b1", "i1")
CONFIG = ClientConfig(append_seconds_max=0.2)
LAC = LacStatement(3, 12, b"lac!")


class Peer:
    """The other end of a stream: keeps what was sent, answers as the test says."""

    def __init__(self) -> None:
        self.requests: list[AppendRequest] = []
        self._replies: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        self.requests.append(codec.decode_append_request(data))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (reply := await self._replies.get()) is not None:
            yield reply

    def cancel(self) -> None:
        self._replies.put_nowait(None)

    def answer(self, *acks: Ack) -> None:
        self._replies.put_nowait(codec.encode_append_reply(AppendReply(acks)))


class Listener:
    """Keeps what a lane is told."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def acked(self, through: int) -> None:
        self.heard.append(through)

    def failed(self, why: str) -> None:
        self.heard.append(why)

    def refused(self, status: Status) -> None:
        self.heard.append(status)


class Setting:
    """A stream to a peer, with as many lanes as wanted."""

    def __init__(self, config: ClientConfig = CONFIG, connect_error: BaseException | None = None) -> None:
        self.peer = Peer()
        self._connect_error = connect_error
        self.broken: list[AppendStream] = []
        self.stream = AppendStream(BOOKIE, config, self._connect, self.broken.append)

    async def _connect(self) -> Peer:
        if self._connect_error is not None:
            raise self._connect_error
        return self.peer

    def lane(self, ledger_id: int = 1) -> tuple[QueuedLane, Listener]:
        listener = Listener()
        return self.stream.open_lane(ledger_id, listener, lambda: LAC, recovery=False), listener


async def until(condition: Callable[[], object]) -> None:
    async def holds() -> bool:
        return bool(condition())

    await until_true(holds, pause_seconds=0.001)


def entry(entry_id: int, size: int = 3) -> Columns:
    return of_payloads(entry_id, [bytes(size)], b"dddd")


def test_what_waits_together_is_one_frame_and_lanes_share_a_message() -> None:
    async def scenario() -> None:
        setting = Setting()
        (one, heard), (two, _) = setting.lane(1), setting.lane(2)
        for entry_id in (4, 5, 6):
            one.send(entry(entry_id))
        two.send(entry(0))
        await until(lambda: setting.peer.requests)
        (request,) = setting.peer.requests
        assert (request.incarnation, request.first_sequence) == ("i1", 0)
        assert [(f.ledger_id, list(f.columns.ids)) for f in request.frames] == [(1, [4, 5, 6]), (2, [0])]
        assert request.frames[0].last_add_confirmed == LAC
        setting.peer.answer(Ack(0, Status.OK))
        await until(lambda: heard.heard)
        assert heard.heard == [6]
        assert (one.backlog_bytes, two.backlog_bytes) == (0, entry(0).size_bytes)
        await setting.stream.close()

    run(scenario())


def test_W6_a_lane_past_its_bound_fails_and_the_others_go_on() -> None:
    """W6: its backlog is bounded in bytes, and past the bound its bookie is a failed one."""

    async def scenario() -> None:
        setting = Setting(replace(CONFIG, lane_backlog_bytes_max=MIB, append_seconds_max=5))
        (slow, told), (other, heard) = setting.lane(1), setting.lane(2)
        slow.send(entry(0, MIB - 16))
        assert told.heard == []
        slow.send(entry(1, 1))
        await until(lambda: told.heard)
        assert told.heard == [f"it is more than {MIB} bytes behind"]
        assert slow.backlog_bytes == 0
        other.send(entry(0))
        await until(lambda: setting.peer.requests)
        setting.peer.answer(Ack(setting.peer.requests[0].first_sequence, Status.OK))
        await until(lambda: heard.heard)
        assert heard.heard == [0]
        await setting.stream.close()

    run(scenario())


def test_a_refusal_ends_its_lane_and_later_answers_are_not_heard() -> None:
    async def scenario() -> None:
        setting = Setting()
        lane, told = setting.lane()
        lane.send(entry(0))
        await until(lambda: len(setting.peer.requests) == 1)
        lane.send(entry(1))
        await until(lambda: len(setting.peer.requests) == 2)
        setting.peer.answer(Ack(0, Status.READ_ONLY, "disk full"), Ack(1, Status.OK))
        await until(lambda: told.heard)
        assert told.heard == ["read-only: disk full"]
        await setting.stream.close()

    run(scenario())


def test_W5_fenced_is_told_as_a_refusal() -> None:
    """W5"""

    async def scenario() -> None:
        setting = Setting()
        lane, told = setting.lane()
        lane.send(entry(0))
        await until(lambda: setting.peer.requests)
        setting.peer.answer(Ack(0, Status.FENCED))
        await until(lambda: told.heard)
        assert told.heard == [Status.FENCED]
        await setting.stream.close()

    run(scenario())


def test_a_bookie_that_does_not_answer_in_time_fails_every_lane() -> None:
    async def scenario() -> None:
        setting = Setting()
        (one, heard_by_one), (_, heard_by_two) = setting.lane(1), setting.lane(2)
        one.send(entry(0))
        await until(lambda: heard_by_two.heard)
        assert heard_by_one.heard == heard_by_two.heard == ["no answer for 0.2 s"]
        assert setting.broken == [setting.stream]

    run(scenario())


def test_a_bookie_that_cannot_be_reached_fails_every_lane() -> None:
    """Also when the reason is of a kind nobody thought of."""

    async def scenario() -> None:
        for error in (OSError("no route"), RuntimeError("no route")):
            setting = Setting(connect_error=error)
            _, told = setting.lane()
            await until(lambda heard=told.heard: heard)  # type: ignore[misc]
            assert "no route" in str(told.heard[0])
            assert setting.broken == [setting.stream]

    run(scenario())


def test_an_answer_to_a_frame_that_was_never_sent_breaks_the_stream() -> None:
    """A peer that breaks the protocol is a failed bookie; the writer must not wait for it for ever."""

    async def scenario() -> None:
        setting = Setting(replace(CONFIG, append_seconds_max=9))
        lane, told = setting.lane()
        lane.send(entry(0))
        await until(lambda: setting.peer.requests)
        setting.peer.answer(Ack(99, Status.OK))
        await until(lambda: told.heard)
        assert "its stream failed" in str(told.heard[0])
        assert setting.broken == [setting.stream]

    run(scenario())
