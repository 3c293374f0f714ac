"""One stream to one bookie: what waits together goes together, what breaks is told to every lane (rule W6)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from bookie.wire import NO_CREDENTIAL, Ack, Status
from bookie.wire.credentials import NONCE_BYTES, StreamProofs
from ledgers.config import MIB
from ledgers.errors import BookieUnavailable
from ledgers.integrity.ledger_keys import LedgerKey
from ledgers.tasks import STOPPED_SECONDS

from .append_peer import CONFIG, LAC, SMALL, Setting, answered, entry, until

LOOP_TURNS = 50
"""More turns of the loop than it takes from a timer that is overdue to the lane that is told of it."""


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


async def test_a_lane_past_its_bound_is_behind_until_it_has_caught_up() -> None:
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


async def test_a_bookie_that_answers_something_in_time_is_slow_and_not_failed() -> None:
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


async def test_a_lane_past_its_bound_fails_where_nobody_wants_to_wait_and_the_others_go_on() -> None:
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
async def test_what_is_no_ok_ends_its_lane_and_later_answers_are_not_heard(
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
