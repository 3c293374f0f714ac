"""One stream to one bookie: what waits together goes together, what breaks is told to every lane (rule W6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from bookie.wire import (
    NO_CREDENTIAL,
    Ack,
    AppendReply,
    AppendRequest,
    Columns,
    LacStatement,
    Status,
    codec,
    of_payloads,
)
from bookie.wire.credentials import NONCE_BYTES, StreamProofs
from bookie.wire.data.connection import Connection, Handler
from bookie.wire.data.framing import Body, FrameKind, FrameReader, framed
from bookie.wire.data.handshake import PACKED_SINCE, ServerHello
from ledgers.bookie_client import LaneTerms
from ledgers.bookies.append_stream import AppendStream
from ledgers.bookies.queued_lane import QueuedLane
from ledgers.config import MIB, ClientConfig
from ledgers.errors import BookieUnavailable
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.loop_batching import LoopBatching
from ledgers.tasks import STOPPED_SECONDS
from metadata.records.ledger_record import BookieRef
from metadata.records.notes import fragment_note
from tests.support.aio import until_true
from tests.support.lane_listener import Listener

BOOKIE = BookieRef("b1", "i1")
CONFIG = ClientConfig(append_seconds_max=0.2)
SMALL = replace(CONFIG, lane_backlog_bytes_max=MIB, pending_bytes_max=MIB, append_seconds_max=5)
LAC = LacStatement(3, 12, b"lac!")
LOOP_TURNS = 50
"""More turns of the loop than it takes from a timer that is overdue to the lane that is told of it."""


class Peer(asyncio.Transport):
    """The other end of a connection: keeps what was sent, answers as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[AppendRequest] = []
        self.bodies: list[Body] = []
        self.welcome = ServerHello(1, "i1", b"n" * NONCE_BYTES)
        self._reader = FrameReader()
        self._reader.handshake_done()
        self.connection: Connection | None = None
        self._is_closing = False

    def connect(self, handler: Handler) -> Connection:
        self.connection = Connection(handler, asks=True)
        self.connection.reader.handshake_done()
        self.connection.connection_made(self)
        return self.connection

    def answer(self, *acks: Ack) -> None:
        self.say(FrameKind.ACKS, codec.encode(AppendReply(acks)))

    def say(self, kind: FrameKind, body: list[bytes | memoryview]) -> None:
        assert self.connection is not None
        with suppress(LookupError):  # the connection has told its handler, and the loop hears of it too
            self.connection.feed(b"".join(framed(kind, 0, body)))

    def write(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            room = self._reader.buffer()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            frames = self._reader.received(count)
            while self._reader.has_more:
                frames += self._reader.more()
            for frame in frames:
                assert frame.kind is FrameKind.APPEND
                self.bodies.append(frame.body)
                self.requests.append(codec.decode(AppendRequest, frame.body))
            if self._reader.wanted:
                self._reader.go_on()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Everything is taken at once."""

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            assert self.connection is not None
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    abort = close


class Setting:
    """A stream to a peer, with as many lanes as wanted."""

    def __init__(self, config: ClientConfig = CONFIG, connect_error: BaseException | None = None) -> None:
        self.peer = Peer()
        self._connect_error = connect_error
        self.broken: list[AppendStream] = []
        self.stream = AppendStream(BOOKIE, config, self._dial, self.broken.append, LoopBatching())

    async def _dial(self, handler: Handler, seconds_max: float) -> tuple[Connection, ServerHello]:
        del seconds_max
        if self._connect_error is not None:
            raise self._connect_error
        return self.peer.connect(handler), self.peer.welcome

    def lane(
        self, ledger_id: int = 1, *, password: bytes = b"", deferred_sync: bool = False
    ) -> tuple[QueuedLane, Listener]:
        listener = Listener()
        terms = LaneTerms(ledger_id, LedgerKey(ledger_id, password), deferred_sync=deferred_sync)
        return self.stream.open_lane(terms, listener, lambda: LAC), listener


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    made = Setting()
    yield made
    await made.stream.close()


async def until(condition: Callable[[], object]) -> None:
    await until_true(lambda: bool(condition()), pause_seconds=0.001)


async def answered(setting: Setting, told: Listener, *acks: Ack) -> list[object]:
    """All that the lane has heard once it hears of these."""
    before = len(told.heard)
    setting.peer.answer(*acks)
    await until(lambda: len(told.heard) > before)
    return told.heard


def entry(entry_id: int, size: int = 3) -> Columns:
    return of_payloads(entry_id, [bytes(size)], b"dddd")


async def test_what_waits_together_is_one_frame_and_lanes_share_a_message(setting: Setting) -> None:
    (one, heard), (two, _) = setting.lane(1), setting.lane(2)
    for entry_id in (4, 5, 6):
        one.send(entry(entry_id))
    two.send(entry(0))
    await until(lambda: setting.peer.requests)
    (request,) = setting.peer.requests
    assert (request.incarnation, request.first_sequence) == ("i1", 0)
    assert [(f.ledger_id, list(f.columns.ids)) for f in request.frames] == [(1, [4, 5, 6]), (2, [0])]
    assert request.frames[0].last_add_confirmed == LAC
    assert await answered(setting, heard, Ack(0, Status.OK)) == [6]
    assert (one.backlog_bytes, two.backlog_bytes) == (0, entry(0).size_bytes)


@pytest.mark.parametrize("version", [PACKED_SINCE - 1, PACKED_SINCE])
async def test_a_bookie_has_its_appends_in_the_form_of_its_version(version: int) -> None:
    setting = Setting()
    setting.peer.welcome = replace(setting.peer.welcome, version=version)
    setting.lane()[0].send(entry(0))
    await until(lambda: setting.peer.requests)
    encoded = codec.append_encoders(version).request(setting.peer.requests[0])
    assert setting.peer.bodies == [b"".join(encoded)]
    await setting.stream.close()


async def test_W6_a_lane_past_its_bound_is_behind_until_it_has_caught_up() -> None:
    """W6: and is told so once, however much more is sent."""
    setting = Setting(SMALL)
    lane, told = setting.lane()
    for n in range(6):
        lane.send(entry(n, MIB - 16))
    assert (told.heard, lane.backlog_bytes) == ([], SMALL.lane_bytes_max)
    for n in (6, 7):
        lane.send(entry(n, 1))
    await until(lambda: told.heard)
    assert told.heard == [("behind", f"it is more than {6 * MIB} bytes behind")]
    for sequence in range(2):
        setting.peer.answer(Ack(sequence, Status.OK))
        await until(lambda: sequence in told.heard)  # noqa: B023
    assert told.heard[1:] == [0, "caught up", 1]
    await setting.stream.close()


async def test_W6_a_bookie_that_answers_something_in_time_is_slow_and_not_failed() -> None:
    """W6: its oldest frame is unanswered for longer than `append_seconds_max`, and it moves."""
    loop = asyncio.get_running_loop()
    setting = Setting(replace(SMALL, append_seconds_max=0.5))
    lane, told = setting.lane()
    for n in range(5):
        lane.send(entry(n, MIB - 16))
    began = loop.time()
    for sequence in range(4):
        await asyncio.sleep(0.3)
        setting.peer.answer(Ack(sequence, Status.OK))
    await until(lambda: 3 in told.heard)
    assert loop.time() - began > 2 * 0.5 and told.heard == [0, 1, 2, 3]
    await until(lambda: len(told.heard) > 4)
    assert told.heard[4:] == ["no answer for 0.5 s"]
    await setting.stream.close()


async def test_W6_a_lane_past_its_bound_fails_where_nobody_wants_to_wait_and_the_others_go_on() -> None:
    """W6: its backlog is bounded in bytes, and past the bound its bookie is a failed one."""
    config = replace(SMALL, under_replicate_rather_than_wait=True)
    setting = Setting(config)
    (slow, told), (other, heard) = setting.lane(1), setting.lane(2)
    for n in range(6):
        slow.send(entry(n, MIB - 16))
    assert (told.heard, slow.backlog_bytes) == ([], config.lane_bytes_max)
    slow.send(entry(6, 1))
    await until(lambda: told.heard)
    assert told.heard == [f"it is more than {6 * MIB} bytes behind"]
    assert slow.backlog_bytes == 0
    other.send(entry(0))
    await until(lambda: setting.peer.requests)
    assert await answered(setting, heard, Ack(setting.peer.requests[0].first_sequence, Status.OK)) == [0]
    await setting.stream.close()


@pytest.mark.parametrize(
    ("ack", "heard"),
    [
        (Ack(0, Status.READ_ONLY, "disk full"), "read-only: disk full"),
        (Ack(0, Status.FENCED), Status.FENCED),
        (Ack(0, Status.WRITTEN), "written"),
    ],
    ids=["refused", "fenced", "written where no sync is put off"],
)
async def test_W5_what_is_no_ok_ends_its_lane_and_later_answers_are_not_heard(
    setting: Setting, ack: Ack, heard: object
) -> None:
    lane, told = setting.lane()
    for n in range(2):
        lane.send(entry(n))
        await until(lambda: len(setting.peer.requests) == n + 1)  # noqa: B023
    assert await answered(setting, told, ack, Ack(1, Status.OK)) == [heard]


async def test_a_bookie_that_does_not_answer_in_time_fails_every_lane(setting: Setting) -> None:
    (one, heard_by_one), (_, heard_by_two) = setting.lane(1), setting.lane(2)
    one.send(entry(0))
    await until(lambda: heard_by_two.heard)
    assert heard_by_one.heard == heard_by_two.heard == ["no answer for 0.2 s"]
    assert setting.broken == [setting.stream]


async def test_a_bookie_that_cannot_be_reached_fails_every_lane() -> None:
    """Also when the reason is of a kind nobody thought of."""
    for error in (BookieUnavailable("b1", "no route"), RuntimeError("no route")):
        setting = Setting(connect_error=error)
        _, told = setting.lane()
        await until(lambda heard=told.heard: heard)  # type: ignore[misc]
        assert "no route" in str(told.heard[0])
        assert setting.broken == [setting.stream]


async def test_an_answer_to_a_frame_that_was_never_sent_breaks_the_stream() -> None:
    """A peer that breaks the protocol is a failed bookie; the writer must not wait for it for ever."""
    setting = Setting(replace(CONFIG, append_seconds_max=9))
    lane, told = setting.lane()
    lane.send(entry(0))
    await until(lambda: setting.peer.requests)
    setting.peer.answer(Ack(99, Status.OK))
    await until(lambda: told.heard)
    assert "its stream failed" in str(told.heard[0])
    assert setting.broken == [setting.stream]


async def test_a_frame_proves_its_lanes_key_to_this_bookie_on_this_stream_only(setting: Setting) -> None:
    lane, _ = setting.lane(1, password=b"secret")
    lane.send(entry(0))
    await until(lambda: setting.peer.requests)
    credential = setting.peer.requests[0].frames[0].credential
    assert credential.verifier == LedgerKey(1, b"secret").verifier
    nonce = setting.peer.welcome.nonce
    assert StreamProofs("i1", nonce).hold(1, credential)
    assert not StreamProofs("i2", nonce).hold(1, credential)
    assert not StreamProofs("i1", b"o" * NONCE_BYTES).hold(1, credential)
    assert not StreamProofs("i1", nonce).hold(2, credential)
    bare, _ = setting.lane(2)
    bare.send(entry(0))
    await until(lambda: len(setting.peer.requests) == 2)
    assert setting.peer.requests[1].frames[0].credential == NO_CREDENTIAL, "there is nothing to prove"


async def test_a_deferred_lane_hears_of_what_is_written_and_a_forced_frame_covers_all_before_it(
    setting: Setting,
) -> None:
    lane, heard = setting.lane(1, deferred_sync=True)
    lane.send(entry(0))
    await until(lambda: setting.peer.requests)
    assert await answered(setting, heard, Ack(0, Status.WRITTEN)) == [("written", 0)]
    lane.force()
    await until(lambda: len(setting.peer.requests) == 2)
    deferred = [frame.deferred_sync for request in setting.peer.requests for frame in request.frames]
    assert deferred == [True, False]
    assert await answered(setting, heard, Ack(1, Status.OK)) == [("written", 0), 0]


async def test_a_force_follows_all_that_waits_before_it(setting: Setting) -> None:
    """Only the frame that takes the last of the queue is synced: the sync covers what went before it."""
    lane, _ = setting.lane(1, deferred_sync=True)
    for entry_id in range(3):
        lane.send(entry(entry_id, size=700_000))
    lane.force()
    await until(lambda: sum(len(r.frames) for r in setting.peer.requests) == 3)
    frames = [frame for request in setting.peer.requests for frame in request.frames]
    assert [(f.columns.last_entry, f.deferred_sync) for f in frames] == [(0, True), (1, True), (2, False)]


async def test_nothing_is_sent_to_a_bookie_that_takes_nothing_and_all_of_it_once_it_does(
    setting: Setting,
) -> None:
    lane, _ = setting.lane()
    lane.send(entry(0))
    await until(lambda: setting.peer.requests)
    connection = setting.peer.connection
    assert connection is not None
    connection.pause_writing()
    for n in (1, 2):
        lane.send(entry(n))
        for _ in range(LOOP_TURNS):
            await asyncio.sleep(0)
    assert len(setting.peer.requests) == 1
    connection.resume_writing()
    await until(lambda: len(setting.peer.requests) == 2)
    assert list(setting.peer.requests[1].frames[0].columns.ids) == [1, 2]


async def test_a_client_that_was_stopped_blames_no_bookie_for_the_time(setting: Setting) -> None:
    """What came meanwhile lies in the socket, unread."""
    lane, heard = setting.lane()
    lane.send(entry(0))
    await until(lambda: setting.peer.requests)
    time.sleep(STOPPED_SECONDS + 0.3)  # noqa: ASYNC251 — the whole loop stands still, as under SIGSTOP
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)
    assert await answered(setting, heard, Ack(0, Status.OK)) == [0]


def noted_lane(setting: Setting, note: Callable[[], bytes], ledger_id: int = 1) -> QueuedLane:
    terms = LaneTerms(ledger_id, LedgerKey(ledger_id, b""), note=note)
    return setting.stream.open_lane(terms, Listener(), lambda: LAC)


def notes_sent(setting: Setting) -> list[tuple[int, int, bytes]]:
    """Of every frame, and what is told besides: its ledger, its number of entries, its note."""
    frames = [frame for request in setting.peer.requests for frame in request.every_frame]
    return [(frame.ledger_id, len(frame.columns), frame.note) for frame in frames]


async def test_the_first_frame_down_a_lane_brings_the_note_and_so_does_the_next_after_a_change(
    setting: Setting,
) -> None:
    now = [b"first"]
    lane = noted_lane(setting, lambda: now[0])
    for n, note in enumerate([b"first", b"first", b"second", b"second"]):
        if note != now[0]:
            now[0] = note
        lane.send(entry(n))
        await until(lambda: len(notes_sent(setting)) == n + 1)  # noqa: B023
        setting.peer.answer(Ack(n, Status.OK))
    assert notes_sent(setting) == [(1, 1, b"first"), (1, 1, b""), (1, 1, b"second"), (1, 1, b"")]


async def test_what_a_lane_was_not_told_when_it_is_closed_goes_with_the_next_message_of_any_ledger(
    setting: Setting,
) -> None:
    now = [b"open"]
    lane, other = noted_lane(setting, lambda: now[0]), noted_lane(setting, lambda: b"other", ledger_id=2)
    lane.send(entry(0))
    await until(lambda: len(notes_sent(setting)) == 1)
    now[0] = b"closed"
    lane.close()
    other.send(entry(0))
    await until(lambda: len(setting.peer.requests) == 2)
    assert notes_sent(setting) == [(1, 1, b"open"), (2, 1, b"other"), (1, 0, b"closed")]
    assert [one.ledger_id for one in setting.peer.requests[1].told] == [1], "it is not waited for"
    setting.peer.answer(Ack(0, Status.OK), Ack(1, Status.OK))


async def test_where_nothing_else_is_sent_it_goes_soon_by_itself_or_when_the_stream_is_closed() -> None:
    setting = Setting(SMALL)
    now = [b"open"]
    lanes = [noted_lane(setting, lambda: now[0], ledger_id) for ledger_id in (1, 2)]
    for lane in lanes:
        lane.send(entry(0))
    await until(lambda: len(notes_sent(setting)) == 2)
    now[0] = b"closed"
    lanes[0].close()
    await until(lambda: len(notes_sent(setting)) == 3)
    lanes[1].close()
    await setting.stream.close()
    assert notes_sent(setting)[2:] == [(1, 0, b"closed"), (2, 0, b"closed")]


async def test_a_bookie_is_told_nothing_of_a_ledger_of_which_it_has_nothing(setting: Setting) -> None:
    now = [b"open"]
    lane = noted_lane(setting, lambda: now[0])
    now[0] = b"closed"
    lane.close()
    await setting.stream.close()
    assert notes_sent(setting) == []


async def test_large_notes_of_many_ledgers_are_spread_over_messages_that_a_bookie_takes() -> None:
    setting = Setting(SMALL)
    large = bytes(fragment_note.NOTE_BYTES_MAX)
    for ledger_id in range(4):
        noted_lane(setting, lambda: large, ledger_id).send(entry(0))
    for ledger_id in range(4, 1000):
        noted_lane(setting, lambda: bytes(250), ledger_id).send(entry(0))
    answered = 0
    while answered < 1000:
        await until(lambda: len(notes_sent(setting)) > answered)  # noqa: B023
        sent = len(notes_sent(setting))
        setting.peer.answer(*(Ack(n, Status.OK) for n in range(answered, sent)))
        answered = sent
    assert [len(request.frames) for request in setting.peer.requests[:4]] == [1, 1, 1, 1]
    assert len(setting.peer.requests) > 4
    await setting.stream.close()
