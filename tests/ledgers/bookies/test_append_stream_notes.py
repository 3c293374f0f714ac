"""Notes go down a stream with a lane's first frame and after each change; what was not told follows (rule W8)."""

from __future__ import annotations

from collections.abc import Callable

from bookie.wire import Ack, Status
from ledgers.bookie_client import LaneTerms
from ledgers.bookies.queued_lane import QueuedLane
from ledgers.integrity.ledger_keys import LedgerKey
from metadata.records.notes import fragment_note
from tests.support.lane_listener import Listener

from .append_peer import LAC, SMALL, Setting, entry, until


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
    assert [one.ledger_id for one in setting.peer.requests[1].note_frames] == [1], "it is not waited for"
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
