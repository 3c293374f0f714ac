"""R1: no fence is answered before it is on disk, and a ledger whose fence is on its way takes recovery adds only.

Here are the rule itself and admission; fences over restarts are in test_bookie_fencing.py, their record and crashes in
scenarios/test_fencing_schedules.py.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bookie.index.local_ledger_state import Fence, LocalLedgerState
from bookie.log.format import BookieLogRecord, RecordKind
from bookie.storage.core import Answer, BookieCore, Write, remember
from bookie.wire.messages import PROOF_BYTES, VERIFIER_BYTES, Credential, Frame, Status
from tests.bookie.entries import frame_of, lac_of


class Ledgers:
    """A core and the states it works on."""

    def __init__(self) -> None:
        self.states: dict[int, LocalLedgerState] = {}
        self.core = BookieCore(
            lambda ledger_id: self.states.setdefault(ledger_id, LocalLedgerState(ledger_id))
        )


def record_of(frame: Frame) -> BookieLogRecord:
    return BookieLogRecord(
        RecordKind.ENTRIES, frame.ledger_id, frame.columns, frame.last_add_confirmed, frame.recovery
    )


FENCE = BookieLogRecord(RecordKind.FENCE, 7)
ADD = frame_of(7, [0, 1], lac=-1)
RECOVERY_ADD = frame_of(7, [2], lac=1, recovery=True)


def test_an_add_is_answered_when_it_is_on_disk() -> None:
    core = Ledgers().core
    assert core.append(ADD, "a") == [Write(record_of(ADD), "a")]
    assert core.on_disk(record_of(ADD), "a") == [Answer("a", Status.OK)]


def test_R1_a_fence_is_answered_to_all_who_asked_for_it_when_it_is_on_disk_and_at_once_from_then_on() -> None:
    """R1: an answer before the fence is on disk would be undone by a crash."""
    core = Ledgers().core
    assert core.fence(7, "f") == [Write(FENCE, "f", deferred_sync=False)]
    assert core.fence(7, "g") == core.fence(7, "h") == []
    assert core.on_disk(FENCE, "f") == [Answer(who, Status.OK) for who in "fgh"]
    assert core.fence(7, "i") == [Answer("i", Status.OK)]


def test_R1_from_the_moment_its_fence_is_submitted_a_ledger_takes_recovery_adds_and_no_others() -> None:
    """R3: what was submitted before is accepted and comes first; what a fenced bookie denies it will not have later."""
    core = Ledgers().core
    assert core.append(ADD, "a") + core.fence(7, "f") == [Write(record_of(ADD), "a"), Write(FENCE, "f")]
    for is_on_disk in (False, True):
        if is_on_disk:
            core.on_disk(FENCE, "f")
        assert core.append(ADD, "b") == [Answer("b", Status.FENCED)]
        assert core.append(RECOVERY_ADD, "c") == [Write(record_of(RECOVERY_ADD), "c")]
    other = ADD._replace(ledger_id=8)
    assert core.append(other, "d") == [Write(record_of(other), "d")], "the fence is of one ledger"


def test_R1_a_fence_the_disk_refused_is_not_a_fence_and_tells_all_who_waited() -> None:
    core = Ledgers().core
    core.fence(7, "f")
    core.fence(7, "g")
    assert core.refused([("f", FENCE)], "full") == [Answer(who, Status.READ_ONLY, "full") for who in "fg"]
    assert core.append(ADD, "a") == [Write(record_of(ADD), "a")]
    assert core.fence(7, "h") == [Write(FENCE, "h")]


def test_an_add_the_disk_refused_leaves_no_trace() -> None:
    ledgers = Ledgers()
    ledgers.core.append(ADD, "a")
    assert ledgers.core.refused([("a", record_of(ADD))], "full") == [Answer("a", Status.READ_ONLY, "full")]
    assert ledgers.states == {7: LocalLedgerState(7, verifier=b"", identity=b"")}


def test_a_bookie_that_is_read_only_takes_fences_and_recovery_adds_and_no_others() -> None:
    """B4: a full disk must not keep a ledger from being recovered."""
    core = Ledgers().core
    core.read_only = "nearly full"
    assert core.append(ADD, "a") == [Answer("a", Status.READ_ONLY, "nearly full")]
    assert core.append(RECOVERY_ADD, "b") == [Write(record_of(RECOVERY_ADD), "b")]
    assert core.fence(7, "f") == [Write(FENCE, "f")]
    assert core.append(RECOVERY_ADD, "c") == [Write(record_of(RECOVERY_ADD), "c")]


def test_a_record_on_disk_changes_what_is_known_of_its_ledger() -> None:
    state = LocalLedgerState(7)
    remember(state, BookieLogRecord(RecordKind.ENTRIES, 7, frame_of(7, []).columns, lac_of(3)))
    assert state == LocalLedgerState(7, last_add_confirmed=lac_of(3), verifier=b"", identity=b"")
    remember(state, BookieLogRecord(RecordKind.FENCE, 7))
    fenced = LocalLedgerState(7, Fence.DURABLE, last_add_confirmed=lac_of(3), verifier=b"", identity=b"")
    assert state == fenced
    remember(state, record_of(ADD))
    assert state == LocalLedgerState(7, Fence.DURABLE, True, lac_of(3), b"", identity=b"")


commands = st.lists(st.sampled_from(["add", "recovery add", "fence", "disk", "disk full"]), max_size=30)


@given(commands)
def test_every_request_is_answered_once_and_no_normal_add_is_written_behind_a_fence(
    what: list[str],
) -> None:
    core = Ledgers().core
    log: list[tuple[BookieLogRecord, object]] = []
    on_disk: list[BookieLogRecord] = []
    answers: dict[object, Status] = {}
    asked = 0

    def perform(effects: list[Write | Answer]) -> None:
        for effect in effects:
            match effect:
                case Write(record, ticket):
                    log.append((record, ticket))
                case Answer(ticket, status):
                    assert ticket not in answers
                    answers[ticket] = status
                    if status is Status.OK and str(ticket).startswith("fence"):
                        assert FENCE in on_disk

    def sync(*, full: bool) -> None:
        group = [(ticket, record) for record, ticket in log]
        log.clear()
        if full:
            perform(list(core.refused(group, "full")))
            return
        for ticket, record in group:
            assert record.recovery or record == FENCE or FENCE not in on_disk
            on_disk.append(record)
            perform(core.on_disk(record, ticket))

    for command in what:
        asked += command in ("add", "recovery add", "fence")
        match command:
            case "add":
                perform(core.append(ADD, f"add {asked}"))
            case "recovery add":
                perform(core.append(RECOVERY_ADD, f"recovery {asked}"))
            case "fence":
                perform(core.fence(7, f"fence {asked}"))
            case "disk":
                sync(full=False)
            case "disk full":
                sync(full=True)
    sync(full=False)
    assert len(answers) == asked


V1, V2 = b"1" * VERIFIER_BYTES, b"2" * VERIFIER_BYTES


def keyed(verifier: bytes) -> Frame:
    return ADD._replace(credential=Credential(verifier, b"p" * PROOF_BYTES))


def test_the_first_verifier_of_a_ledger_is_its_verifier_and_a_stranger_can_fence_nothing() -> None:
    ledgers = Ledgers()
    (write,) = ledgers.core.append(keyed(V1), "a")
    assert isinstance(write, Write) and write.record.verifier == V1
    refused = [Answer("b", Status.UNAUTHORIZED)]
    assert ledgers.core.append(keyed(V2), "b") == ledgers.core.append(ADD, "b") == refused
    assert ledgers.core.fence(7, "b", V2) == ledgers.core.fence(7, "b") == refused
    assert ledgers.states[7].fence is Fence.NONE


def test_a_recovery_add_must_show_the_verifier_too() -> None:
    ledgers = Ledgers()
    ledgers.core.fence(7, "a", V1)
    assert ledgers.core.append(keyed(V2)._replace(recovery=True), "b") == [Answer("b", Status.UNAUTHORIZED)]
    assert isinstance(ledgers.core.append(keyed(V1)._replace(recovery=True), "c")[0], Write)


def test_a_fence_record_carries_the_verifier_it_was_asked_with() -> None:
    """R1: the fence stands alone, and so does who may recover the ledger."""
    state = LocalLedgerState(7)
    remember(state, BookieLogRecord(RecordKind.FENCE, 7, verifier=V1))
    assert (state.fence, state.verifier) == (Fence.DURABLE, V1)


def test_the_verifier_of_what_is_on_disk_is_known_after_a_restart() -> None:
    state = LocalLedgerState(7)
    remember(state, BookieLogRecord(RecordKind.ENTRIES, 7, ADD.columns, verifier=V1))
    core = BookieCore(lambda _: state)
    assert core.append(keyed(V2), "a") == [Answer("a", Status.UNAUTHORIZED)]


def test_a_record_with_deferred_sync_is_answered_once_when_it_is_written() -> None:
    ledgers = Ledgers()
    (write,) = ledgers.core.append(ADD._replace(deferred_sync=True), "a")
    assert isinstance(write, Write) and write.deferred_sync
    assert ledgers.core.written("a") == [Answer("a", Status.WRITTEN)]
    assert ledgers.core.on_disk(write.record, None) == []
    assert ledgers.states[7].known


def test_the_writer_is_where_the_last_frame_that_was_taken_from_it_came_from() -> None:
    ledgers = Ledgers()
    state = ledgers.states.setdefault(7, LocalLedgerState(7))
    ledgers.core.append(ADD, "a", "10.0.0.7:1000")
    ledgers.core.append(RECOVERY_ADD, "b", "10.0.0.8:1000")
    assert state.writer_address == "10.0.0.7:1000", "who writes back is no writer"
    ledgers.core.fence(7, "c")
    ledgers.core.append(ADD, "d", "10.0.0.9:1000")
    assert state.writer_address == "10.0.0.7:1000", "what was refused is not written"
