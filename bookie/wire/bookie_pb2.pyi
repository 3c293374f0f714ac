from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATUS_UNSPECIFIED: _ClassVar[Status]
    OK: _ClassVar[Status]
    NO_SUCH_LEDGER: _ClassVar[Status]
    FENCED: _ClassVar[Status]
    UNAUTHORIZED: _ClassVar[Status]
    READ_ONLY: _ClassVar[Status]
    TOO_MANY_REQUESTS: _ClassVar[Status]
    IO_ERROR: _ClassVar[Status]
    WRONG_INCARNATION: _ClassVar[Status]
    UNKNOWN: _ClassVar[Status]
    BAD_REQUEST: _ClassVar[Status]
    STOPPING: _ClassVar[Status]
    WRITTEN: _ClassVar[Status]
    WRONG_IDENTITY: _ClassVar[Status]

class MaintenanceAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATUS: _ClassVar[MaintenanceAction]
    COLLECT: _ClassVar[MaintenanceAction]
    SUSPEND: _ClassVar[MaintenanceAction]
    RESUME: _ClassVar[MaintenanceAction]
    SCRUB: _ClassVar[MaintenanceAction]
    REPAIR: _ClassVar[MaintenanceAction]
STATUS_UNSPECIFIED: Status
OK: Status
NO_SUCH_LEDGER: Status
FENCED: Status
UNAUTHORIZED: Status
READ_ONLY: Status
TOO_MANY_REQUESTS: Status
IO_ERROR: Status
WRONG_INCARNATION: Status
UNKNOWN: Status
BAD_REQUEST: Status
STOPPING: Status
WRITTEN: Status
WRONG_IDENTITY: Status
STATUS: MaintenanceAction
COLLECT: MaintenanceAction
SUSPEND: MaintenanceAction
RESUME: MaintenanceAction
SCRUB: MaintenanceAction
REPAIR: MaintenanceAction

class LastAddConfirmed(_message.Message):
    __slots__ = ("last_entry", "length_bytes", "digest")
    LAST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    LENGTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    last_entry: int
    length_bytes: int
    digest: bytes
    def __init__(self, last_entry: _Optional[int] = ..., length_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Credential(_message.Message):
    __slots__ = ("verifier", "proof")
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    verifier: bytes
    proof: bytes
    def __init__(self, verifier: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class Columns(_message.Message):
    __slots__ = ("entries", "digests_bytes", "payload_bytes")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    entries: int
    digests_bytes: int
    payload_bytes: int
    def __init__(self, entries: _Optional[int] = ..., digests_bytes: _Optional[int] = ..., payload_bytes: _Optional[int] = ...) -> None: ...

class EntryRange(_message.Message):
    __slots__ = ("first_entry", "last_entry")
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    first_entry: int
    last_entry: int
    def __init__(self, first_entry: _Optional[int] = ..., last_entry: _Optional[int] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("incarnation", "ledger_id", "first_entry", "last_entry", "bytes_max", "fence", "credential", "trace", "whole_frames", "identity")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FRAMES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    incarnation: str
    ledger_id: int
    first_entry: int
    last_entry: int
    bytes_max: int
    fence: bool
    credential: Credential
    trace: bytes
    whole_frames: bool
    identity: bytes
    def __init__(self, incarnation: _Optional[str] = ..., ledger_id: _Optional[int] = ..., first_entry: _Optional[int] = ..., last_entry: _Optional[int] = ..., bytes_max: _Optional[int] = ..., fence: bool = ..., credential: _Optional[_Union[Credential, _Mapping]] = ..., trace: _Optional[bytes] = ..., whole_frames: bool = ..., identity: _Optional[bytes] = ...) -> None: ...

class ScanRequest(_message.Message):
    __slots__ = ("incarnation", "ledger_id", "first_entry", "last_entry", "page_bytes", "window_bytes", "credential", "identity")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    incarnation: str
    ledger_id: int
    first_entry: int
    last_entry: int
    page_bytes: int
    window_bytes: int
    credential: Credential
    identity: bytes
    def __init__(self, incarnation: _Optional[str] = ..., ledger_id: _Optional[int] = ..., first_entry: _Optional[int] = ..., last_entry: _Optional[int] = ..., page_bytes: _Optional[int] = ..., window_bytes: _Optional[int] = ..., credential: _Optional[_Union[Credential, _Mapping]] = ..., identity: _Optional[bytes] = ...) -> None: ...

class Taken(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class ReadReply(_message.Message):
    __slots__ = ("status", "detail", "columns", "covered_through", "damaged", "last_add_confirmed")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    COVERED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    DAMAGED_FIELD_NUMBER: _ClassVar[int]
    LAST_ADD_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    status: Status
    detail: str
    columns: Columns
    covered_through: int
    damaged: _containers.RepeatedCompositeFieldContainer[EntryRange]
    last_add_confirmed: LastAddConfirmed
    def __init__(self, status: _Optional[_Union[Status, str]] = ..., detail: _Optional[str] = ..., columns: _Optional[_Union[Columns, _Mapping]] = ..., covered_through: _Optional[int] = ..., damaged: _Optional[_Iterable[_Union[EntryRange, _Mapping]]] = ..., last_add_confirmed: _Optional[_Union[LastAddConfirmed, _Mapping]] = ...) -> None: ...

class LastAddConfirmedRequest(_message.Message):
    __slots__ = ("incarnation", "ledger_id", "fence", "wait_beyond", "wait_ms", "credential", "trace", "identity")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    WAIT_BEYOND_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    incarnation: str
    ledger_id: int
    fence: bool
    wait_beyond: int
    wait_ms: int
    credential: Credential
    trace: bytes
    identity: bytes
    def __init__(self, incarnation: _Optional[str] = ..., ledger_id: _Optional[int] = ..., fence: bool = ..., wait_beyond: _Optional[int] = ..., wait_ms: _Optional[int] = ..., credential: _Optional[_Union[Credential, _Mapping]] = ..., trace: _Optional[bytes] = ..., identity: _Optional[bytes] = ...) -> None: ...

class LastAddConfirmedReply(_message.Message):
    __slots__ = ("status", "detail", "last_add_confirmed", "vouched_since", "latest", "writer_address")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    LAST_ADD_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    VOUCHED_SINCE_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    WRITER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    status: Status
    detail: str
    last_add_confirmed: LastAddConfirmed
    vouched_since: int
    latest: LatestFragment
    writer_address: str
    def __init__(self, status: _Optional[_Union[Status, str]] = ..., detail: _Optional[str] = ..., last_add_confirmed: _Optional[_Union[LastAddConfirmed, _Mapping]] = ..., vouched_since: _Optional[int] = ..., latest: _Optional[_Union[LatestFragment, _Mapping]] = ..., writer_address: _Optional[str] = ...) -> None: ...

class LatestFragment(_message.Message):
    __slots__ = ("first_entry", "number", "is_closed")
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    IS_CLOSED_FIELD_NUMBER: _ClassVar[int]
    first_entry: int
    number: int
    is_closed: bool
    def __init__(self, first_entry: _Optional[int] = ..., number: _Optional[int] = ..., is_closed: bool = ...) -> None: ...

class HoldingsRequest(_message.Message):
    __slots__ = ("incarnation", "ledger_id", "first_entry", "last_entry", "step_bytes", "identity")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    STEP_BYTES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    incarnation: str
    ledger_id: int
    first_entry: int
    last_entry: int
    step_bytes: int
    identity: bytes
    def __init__(self, incarnation: _Optional[str] = ..., ledger_id: _Optional[int] = ..., first_entry: _Optional[int] = ..., last_entry: _Optional[int] = ..., step_bytes: _Optional[int] = ..., identity: _Optional[bytes] = ...) -> None: ...

class HoldingsReply(_message.Message):
    __slots__ = ("status", "detail", "covered_through", "first_entries", "last_entries", "entries", "payload_bytes")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    COVERED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    status: Status
    detail: str
    covered_through: int
    first_entries: _containers.RepeatedScalarFieldContainer[int]
    last_entries: _containers.RepeatedScalarFieldContainer[int]
    entries: _containers.RepeatedScalarFieldContainer[int]
    payload_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, status: _Optional[_Union[Status, str]] = ..., detail: _Optional[str] = ..., covered_through: _Optional[int] = ..., first_entries: _Optional[_Iterable[int]] = ..., last_entries: _Optional[_Iterable[int]] = ..., entries: _Optional[_Iterable[int]] = ..., payload_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class InfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InfoReply(_message.Message):
    __slots__ = ("bookie_id", "incarnation", "cluster_id", "version", "disk_bytes_total", "disk_bytes_free", "entries_added", "bytes_added", "syncs", "read_only", "entries_read", "bytes_read", "append_seconds_bounds", "append_counts", "interpreter")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FREE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_ADDED_FIELD_NUMBER: _ClassVar[int]
    BYTES_ADDED_FIELD_NUMBER: _ClassVar[int]
    SYNCS_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_READ_FIELD_NUMBER: _ClassVar[int]
    BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    APPEND_SECONDS_BOUNDS_FIELD_NUMBER: _ClassVar[int]
    APPEND_COUNTS_FIELD_NUMBER: _ClassVar[int]
    INTERPRETER_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    incarnation: str
    cluster_id: str
    version: str
    disk_bytes_total: int
    disk_bytes_free: int
    entries_added: int
    bytes_added: int
    syncs: int
    read_only: bool
    entries_read: int
    bytes_read: int
    append_seconds_bounds: _containers.RepeatedScalarFieldContainer[float]
    append_counts: _containers.RepeatedScalarFieldContainer[int]
    interpreter: str
    def __init__(self, bookie_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., cluster_id: _Optional[str] = ..., version: _Optional[str] = ..., disk_bytes_total: _Optional[int] = ..., disk_bytes_free: _Optional[int] = ..., entries_added: _Optional[int] = ..., bytes_added: _Optional[int] = ..., syncs: _Optional[int] = ..., read_only: bool = ..., entries_read: _Optional[int] = ..., bytes_read: _Optional[int] = ..., append_seconds_bounds: _Optional[_Iterable[float]] = ..., append_counts: _Optional[_Iterable[int]] = ..., interpreter: _Optional[str] = ...) -> None: ...

class NotesRequest(_message.Message):
    __slots__ = ("first_ledger", "first_entry", "incarnation")
    FIRST_LEDGER_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    first_ledger: int
    first_entry: int
    incarnation: str
    def __init__(self, first_ledger: _Optional[int] = ..., first_entry: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...

class HeldNote(_message.Message):
    __slots__ = ("ledger_id", "first_entry", "identity", "note")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    first_entry: int
    identity: bytes
    note: bytes
    def __init__(self, ledger_id: _Optional[int] = ..., first_entry: _Optional[int] = ..., identity: _Optional[bytes] = ..., note: _Optional[bytes] = ...) -> None: ...

class NotesReply(_message.Message):
    __slots__ = ("status", "detail", "notes", "is_last")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    IS_LAST_FIELD_NUMBER: _ClassVar[int]
    status: Status
    detail: str
    notes: _containers.RepeatedCompositeFieldContainer[HeldNote]
    is_last: bool
    def __init__(self, status: _Optional[_Union[Status, str]] = ..., detail: _Optional[str] = ..., notes: _Optional[_Iterable[_Union[HeldNote, _Mapping]]] = ..., is_last: bool = ...) -> None: ...

class MaintainRequest(_message.Message):
    __slots__ = ("action", "adopt", "retired")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ADOPT_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    action: MaintenanceAction
    adopt: str
    retired: bool
    def __init__(self, action: _Optional[_Union[MaintenanceAction, str]] = ..., adopt: _Optional[str] = ..., retired: bool = ...) -> None: ...

class MaintainReply(_message.Message):
    __slots__ = ("status", "detail", "report")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    status: Status
    detail: str
    report: str
    def __init__(self, status: _Optional[_Union[Status, str]] = ..., detail: _Optional[str] = ..., report: _Optional[str] = ...) -> None: ...
