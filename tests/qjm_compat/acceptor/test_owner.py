"""A promise is somebody's: only who has the latest one changes the whole journal without ending it."""

from __future__ import annotations

from metadata.records.journal_record import JournalState, JournalStorage
from qjm_compat.acceptor.programs import state_transitions

STORAGE = JournalStorage(-63, 7, "CID-x")
FIRST, SECOND = b"first", b"second"
FORMATTED = state_transitions.formatted(None, STORAGE)


def end_of(state: JournalState, owner: bytes) -> int:
    """What is promised once this process has changed the journal."""
    return state_transitions.refused(state, owner).last_promised_epoch


def test_the_owner_of_the_latest_promise_keeps_it_and_everybody_else_ends_it() -> None:
    state = state_transitions.promised(FORMATTED, 4, FIRST)
    assert end_of(state, FIRST) == 4
    assert end_of(state, SECOND) == end_of(state, b"") == 5
    assert state_transitions.refused(state, SECOND).owner == b""


def test_an_earlier_owner_is_nobody_once_the_journal_is_promised_to_another() -> None:
    state = state_transitions.promised(state_transitions.promised(FORMATTED, 4, FIRST), 5, SECOND)
    assert end_of(state, FIRST) == 6
    assert end_of(state, SECOND) == 5


def test_a_promise_to_who_did_not_say_who_it_is_has_no_owner() -> None:
    state = state_transitions.promised(state_transitions.promised(FORMATTED, 4, FIRST), 5)
    assert end_of(state, FIRST) == end_of(state, b"") == 6


def test_a_format_leaves_no_owner() -> None:
    state = state_transitions.formatted(state_transitions.promised(FORMATTED, 4, FIRST), STORAGE)
    assert state.owner == b""
    assert end_of(state, FIRST) == state.last_promised_epoch + 1


def test_a_rollback_does_not_bring_the_owner_of_before_the_upgrade_back() -> None:
    state = state_transitions.upgrading(state_transitions.promised(FORMATTED, 4, FIRST), None)
    state = state_transitions.promised(state_transitions.upgraded(state, STORAGE), 5, SECOND)
    assert state.previous is not None
    back = state_transitions.rolled_back(state, state.previous)
    assert (back.last_promised_epoch, back.owner) == (5, SECOND)
    assert end_of(back, FIRST) == 6
