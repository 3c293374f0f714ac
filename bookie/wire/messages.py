"""Messages between clients and bookies, as immutable values. Only the codec handles their encoded form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from metadata.records.notes.fragment_note import Headline

from .columnar_entries import NO_ENTRIES, Columns
from .named_tuples import made_of

NO_ENTRY = -1
"""Last-add-confirmed of a ledger without confirmed entries."""


VERIFIER_BYTES = 32
PROOF_BYTES = 64

NO_IDENTITY = b""
"""Blank identity, used if none is specified; the identity in a ledger's record is `IDENTITY_BYTES` long (rule W8)."""


NO_NOTE = b""
"""Blank note, used if a frame contains no note (an encoded `FragmentNote`) of its fragment."""


class Credential(NamedTuple):
    """Proves that the sender knows a ledger's password, without revealing it; blank if there is no password.

    `verifier` is the ledger's public key. `proof` is a signature, made with the private key, over the requested action
    and the bookie's incarnation (`ledger_keys`). A bookie remembers a ledger's first verifier and refuses any other.
    """

    verifier: bytes = b""
    proof: bytes = b""


NO_CREDENTIAL = Credential()


class Status(StrEnum):
    """Status of a bookie's answer. A refusal is an answer, too; a gRPC error only means that the call did not take
    place."""

    OK = "ok"
    WRITTEN = "written"  # with deferred sync: in the log, but not on disk until a later sync
    NO_SUCH_LEDGER = "no such ledger"
    FENCED = "fenced"
    UNAUTHORIZED = "unauthorized"
    READ_ONLY = "read-only"
    TOO_MANY_REQUESTS = "too many requests"
    IO_ERROR = "i/o error"
    WRONG_INCARNATION = "wrong incarnation"
    UNKNOWN = "unknown: the bookie cannot vouch for this ledger"
    BAD_REQUEST = "bad request"
    STOPPING = "stopping"
    WRONG_IDENTITY = "wrong identity"


class LacStatement(NamedTuple):
    """States that everything through `last_entry` is confirmed, with the number of payload bytes up to that entry and a
    digest over both."""

    last_entry: int
    length_bytes: int
    digest: bytes


NO_TRACE = b""
"""Blank trace context, used if a message does not belong to a trace; any other value is encoded by `trace_context`."""


class Frame(NamedTuple):
    """Entries of one ledger for one bookie, with the writer's last-add-confirmed at the time of sending.

    Without columns, the frame contains only the last-add-confirmed (an explicit LAC), or a `note`. With `deferred_sync`
    the bookie may answer WRITTEN; it answers the next frame without `deferred_sync` only when everything before that
    frame is on disk as well.
    """

    ledger_id: int
    columns: Columns = NO_ENTRIES
    last_add_confirmed: LacStatement | None = None
    recovery: bool = False
    credential: Credential = NO_CREDENTIAL
    deferred_sync: bool = False
    trace: bytes = NO_TRACE
    identity: bytes = NO_IDENTITY
    note: bytes = NO_NOTE


class AppendRequest(NamedTuple):
    """Frames for the bookie with this incarnation; `first_sequence` is the number of frames[0], and the following
    frames are numbered consecutively.

    `note_frames`: frames that contain only a note. The bookie does not answer them, and they may be lost.
    """

    incarnation: str
    first_sequence: int
    frames: tuple[Frame, ...]
    note_frames: tuple[Frame, ...] = ()

    @property
    def every_frame(self) -> tuple[Frame, ...]:
        """All frames: `frames`, which the bookie answers, followed by `note_frames`, which it does not answer."""
        return self.frames + self.note_frames


class Ack(NamedTuple):
    """The answer to the frame with this sequence number; OK means that the frame is on disk (rule B1)."""

    sequence: int
    status: Status
    detail: str = ""


class AppendReply(NamedTuple):
    acks: tuple[Ack, ...]


new_lac: Callable[[tuple[int, int, bytes]], LacStatement] = made_of(LacStatement)
new_frame: Callable[
    [tuple[int, Columns, LacStatement | None, bool, Credential, bool, bytes, bytes, bytes]], Frame
] = made_of(Frame)
new_request: Callable[[tuple[str, int, tuple[Frame, ...], tuple[Frame, ...]]], AppendRequest] = made_of(
    AppendRequest
)
new_ack: Callable[[tuple[int, Status, str]], Ack] = made_of(Ack)
new_reply: Callable[[tuple[tuple[Ack, ...]]], AppendReply] = made_of(AppendReply)


@dataclass(frozen=True, slots=True)
class EntryRange:
    first_entry: int
    last_entry: int


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Asks for a page of entries from first_entry through last_entry at most, with about `bytes_max` of payload.

    With `fence` the bookie refuses the ledger's writer from then on, and answers only after the fence is on disk (rules
    R1, R3). With `whole_frames` the page ends at the end of a frame of the log, so that the bookie sends the bytes as
    they are stored in the log; the page then stays within `bytes_max` unless it is a single frame.
    """

    incarnation: str
    ledger_id: int
    first_entry: int
    last_entry: int
    bytes_max: int
    fence: bool = False
    credential: Credential = NO_CREDENTIAL
    trace: bytes = NO_TRACE
    whole_frames: bool = False
    identity: bytes = NO_IDENTITY


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A page of entries. An entry up to and including `covered_through` that is neither in `columns` nor in a `damaged`
    range is not on this bookie; the page gives no information about later entries. If the status is OK, `detail` is the
    reason why the first `damaged` entry was not read."""

    status: Status
    columns: Columns = NO_ENTRIES
    covered_through: int = NO_ENTRY
    damaged: tuple[EntryRange, ...] = ()
    last_add_confirmed: LacStatement | None = None
    detail: str = ""

    @property
    def why_unreadable(self) -> str:
        """The reason to report for an entry that is in `damaged`."""
        return f"its copy could not be read: {self.detail}" if self.detail else "its copy is damaged"


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """Asks for the entries first_entry … last_entry in pages of whole frames; each page is sent as a `ReadReply`.

    The bookie sends the next page once the bytes that the client has not taken leave room for `page_bytes` in
    `window_bytes`, or once the client has taken everything. A page for which `ends` is true is the last one. A scan
    never fences.
    """

    incarnation: str
    ledger_id: int
    first_entry: int
    last_entry: int
    page_bytes: int
    window_bytes: int
    credential: Credential = NO_CREDENTIAL
    identity: bytes = NO_IDENTITY

    def page_from(self, first_entry: int) -> ReadRequest:
        """Returns the read request for the next page, which begins at this entry."""
        asked = self.incarnation, self.ledger_id, first_entry, self.last_entry, self.page_bytes
        return ReadRequest(*asked, credential=self.credential, whole_frames=True, identity=self.identity)

    def ends(self, reply: ReadReply) -> bool:
        """Returns whether this page ends the scan: it is the last page, or part of its range is damaged, or it was
        refused."""
        return (
            reply.status is not Status.OK or bool(reply.damaged) or reply.covered_through >= self.last_entry
        )


class BytesTaken(NamedTuple):
    """Flow control of a scan: the number of bytes of the scan's answers that the client has taken."""

    bytes: int


@dataclass(frozen=True, slots=True)
class LacRequest:
    """Asks for the highest last-add-confirmed on the bookie; may also fence, or wait for a higher one (long poll)."""

    incarnation: str
    ledger_id: int
    fence: bool = False
    wait_beyond: int = NO_ENTRY
    wait_ms: int = 0
    credential: Credential = NO_CREDENTIAL
    trace: bytes = NO_TRACE
    identity: bytes = NO_IDENTITY


@dataclass(frozen=True, slots=True)
class LacReply:
    """The reply to a LacRequest. `vouched_since`, in a reply to a fence: a revision of the metadata store; whenever the
    store has been rolled back to an older copy of itself since then, the cluster has been put on hold (rule W8). It is
    0 if the bookie does not know such a revision. `latest`, also in a reply to a fence: the bookie's note of the
    ledger's last fragment, or None if it has no such note. `writer_address`: the peer address and port of the
    connection over which the ledger's writer last sent a message; "" if the writer has sent nothing since the bookie
    started, or if the bookie has forgotten the address."""

    status: Status
    last_add_confirmed: LacStatement | None = None
    detail: str = ""
    vouched_since: int = 0
    latest: Headline | None = None
    writer_address: str = ""


HOLDINGS_MAX = 4096
"""Maximum number of extents in one reply."""

HOLDINGS_BYTES_MAX = 256 * 1024
"""Maximum size of one reply, in bytes: for each extent four numbers of at most nine bytes each, plus overhead."""


@dataclass(frozen=True, slots=True)
class HoldingsRequest:
    """Asks a bookie for a ledger's extents, covering all frames that begin in this range of entries.

    Successive frames are combined into extents of at most `step_bytes`; a larger frame forms an extent by itself.
    """

    incarnation: str
    ledger_id: int
    first_entry: int
    last_entry: int
    step_bytes: int
    identity: bytes = NO_IDENTITY


class Holding(NamedTuple):
    """An extent (a run of frames): the range of its entries, their number, and the approximate size of their payload in
    bytes.

    An entry that is stored twice is counted twice.
    """

    first_entry: int
    last_entry: int
    entries: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class HoldingsReply:
    """Extents in order of their first entries. Frames that begin after `covered_through` are not included."""

    status: Status
    holdings: tuple[Holding, ...] = ()
    covered_through: int = NO_ENTRY
    detail: str = ""


@dataclass(frozen=True, slots=True)
class NotesRequest:
    """Asks for a bookie's notes of its ledgers, beginning with this ledger and, within this ledger, with this entry."""

    incarnation: str
    first_ledger: int = 0
    first_entry: int = 0

    @property
    def is_first(self) -> bool:
        return self.first_ledger == self.first_entry == 0


class HeldNote(NamedTuple):
    """A ledger on a bookie, and the bookie's note of the fragment that begins at this entry (a `FragmentNote`,
    encoded).

    The note is empty, and `first_entry` is 0, if the bookie has the ledger but no note about any of its fragments.
    """

    ledger_id: int
    first_entry: int
    identity: bytes
    note: bytes


@dataclass(frozen=True, slots=True)
class NotesReply:
    """Notes ordered by ledger and first entry; `is_last`: whether no more notes follow."""

    status: Status
    notes: tuple[HeldNote, ...] = ()
    is_last: bool = True
    detail: str = ""


@dataclass(frozen=True, slots=True)
class InfoRequest:
    """Asks for a bookie's identity and status."""


@dataclass(frozen=True, slots=True)
class InfoReply:
    """A bookie's status; counters cover the time since it started.

    `append_counts`: for each bound in `append_seconds_bounds`, the number of frames that were on disk within that time,
    followed by the number of slower frames.
    """

    bookie_id: str
    incarnation: str
    cluster_id: str
    version: str
    disk_bytes_total: int
    disk_bytes_free: int
    entries_added: int
    bytes_added: int
    syncs: int
    read_only: bool = False
    entries_read: int = 0
    bytes_read: int = 0
    append_seconds_bounds: tuple[float, ...] = ()
    append_counts: tuple[int, ...] = ()
    interpreter: str = ""


class MaintenanceAction(StrEnum):
    """Maintenance that an operator can request of a bookie."""

    STATUS = "status"
    COLLECT = "collect"  # collect garbage now
    SUSPEND = "suspend"  # pause the bookie's own collections until RESUME
    RESUME = "resume"
    SCRUB = "scrub"  # verify everything on the bookie's disk
    REPAIR = "repair"  # fetch missing copies from the other replicas


REPORT_BYTES_MAX = 1024 * 1024
"""Maximum size of a maintenance report, in UTF-8."""


@dataclass(frozen=True, slots=True)
class MaintainRequest:
    """Requests maintenance of a bookie. `adopt`, with REPAIR: a lost bookie whose positions this bookie takes over.
    `retired`, with COLLECT: whether an operator confirms that every ledger that has no record, and whose id is below
    the end of the retired ids, was deleted."""

    action: MaintenanceAction
    adopt: str = ""
    retired: bool = False


@dataclass(frozen=True, slots=True)
class MaintainReply:
    """Result of maintenance; `report` is a JSON object of at most REPORT_BYTES_MAX, or empty."""

    status: Status
    detail: str = ""
    report: str = ""


def status_text(reply: LacReply | ReadReply | MaintainReply | NotesReply) -> str:
    """Describes a reply's status in words, with its detail if there is one."""
    return f"{reply.status}: {reply.detail}" if reply.detail else str(reply.status)
