from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LedgerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LEDGER_STATE_UNSPECIFIED: _ClassVar[LedgerState]
    OPEN: _ClassVar[LedgerState]
    IN_RECOVERY: _ClassVar[LedgerState]
    CLOSED: _ClassVar[LedgerState]
    DELETED: _ClassVar[LedgerState]

class DigestType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIGEST_TYPE_UNSPECIFIED: _ClassVar[DigestType]
    CRC32C: _ClassVar[DigestType]
    HMAC_SHA256: _ClassVar[DigestType]

class OrderKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_KIND_UNSPECIFIED: _ClassVar[OrderKind]
    DRAIN: _ClassVar[OrderKind]
    MAINTENANCE: _ClassVar[OrderKind]
    GIVEN_UP: _ClassVar[OrderKind]
LEDGER_STATE_UNSPECIFIED: LedgerState
OPEN: LedgerState
IN_RECOVERY: LedgerState
CLOSED: LedgerState
DELETED: LedgerState
DIGEST_TYPE_UNSPECIFIED: DigestType
CRC32C: DigestType
HMAC_SHA256: DigestType
ORDER_KIND_UNSPECIFIED: OrderKind
DRAIN: OrderKind
MAINTENANCE: OrderKind
GIVEN_UP: OrderKind

class Layout(_message.Message):
    __slots__ = ("format_version", "cluster_id")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    cluster_id: str
    def __init__(self, format_version: _Optional[int] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class NextId(_message.Message):
    __slots__ = ("next_id", "nonce")
    NEXT_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    next_id: int
    nonce: bytes
    def __init__(self, next_id: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class BookieRef(_message.Message):
    __slots__ = ("bookie_id", "incarnation")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    incarnation: str
    def __init__(self, bookie_id: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class Lacking(_message.Message):
    __slots__ = ("position", "first_entry", "last_entry")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    position: int
    first_entry: int
    last_entry: int
    def __init__(self, position: _Optional[int] = ..., first_entry: _Optional[int] = ..., last_entry: _Optional[int] = ...) -> None: ...

class Fragment(_message.Message):
    __slots__ = ("first_entry", "ensemble", "length_before", "lacking", "number")
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    ENSEMBLE_FIELD_NUMBER: _ClassVar[int]
    LENGTH_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    first_entry: int
    ensemble: _containers.RepeatedCompositeFieldContainer[BookieRef]
    length_before: int
    lacking: _containers.RepeatedCompositeFieldContainer[Lacking]
    number: int
    def __init__(self, first_entry: _Optional[int] = ..., ensemble: _Optional[_Iterable[_Union[BookieRef, _Mapping]]] = ..., length_before: _Optional[int] = ..., lacking: _Optional[_Iterable[_Union[Lacking, _Mapping]]] = ..., number: _Optional[int] = ...) -> None: ...

class Ledger(_message.Message):
    __slots__ = ("format_version", "ensemble_size", "write_quorum", "ack_quorum", "digest_type", "state", "last_entry", "length_bytes", "fragments", "custom_metadata", "created_ms", "nonce", "reserved", "accepted_loss", "verifier", "closed_ms", "password_salt", "identity", "written_at", "also_at", "of_log", "cold", "cold_version")
    class CustomMetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENSEMBLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    WRITE_QUORUM_FIELD_NUMBER: _ClassVar[int]
    ACK_QUORUM_FIELD_NUMBER: _ClassVar[int]
    DIGEST_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LAST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    LENGTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_METADATA_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_LOSS_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    CLOSED_MS_FIELD_NUMBER: _ClassVar[int]
    PASSWORD_SALT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_AT_FIELD_NUMBER: _ClassVar[int]
    ALSO_AT_FIELD_NUMBER: _ClassVar[int]
    OF_LOG_FIELD_NUMBER: _ClassVar[int]
    COLD_FIELD_NUMBER: _ClassVar[int]
    COLD_VERSION_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    digest_type: DigestType
    state: LedgerState
    last_entry: int
    length_bytes: int
    fragments: _containers.RepeatedCompositeFieldContainer[Fragment]
    custom_metadata: _containers.ScalarMap[str, bytes]
    created_ms: int
    nonce: bytes
    reserved: bool
    accepted_loss: AcceptedLoss
    verifier: bytes
    closed_ms: int
    password_salt: bytes
    identity: bytes
    written_at: int
    also_at: _containers.RepeatedCompositeFieldContainer[BookieRef]
    of_log: bool
    cold: ColdCopy
    cold_version: int
    def __init__(self, format_version: _Optional[int] = ..., ensemble_size: _Optional[int] = ..., write_quorum: _Optional[int] = ..., ack_quorum: _Optional[int] = ..., digest_type: _Optional[_Union[DigestType, str]] = ..., state: _Optional[_Union[LedgerState, str]] = ..., last_entry: _Optional[int] = ..., length_bytes: _Optional[int] = ..., fragments: _Optional[_Iterable[_Union[Fragment, _Mapping]]] = ..., custom_metadata: _Optional[_Mapping[str, bytes]] = ..., created_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ..., reserved: bool = ..., accepted_loss: _Optional[_Union[AcceptedLoss, _Mapping]] = ..., verifier: _Optional[bytes] = ..., closed_ms: _Optional[int] = ..., password_salt: _Optional[bytes] = ..., identity: _Optional[bytes] = ..., written_at: _Optional[int] = ..., also_at: _Optional[_Iterable[_Union[BookieRef, _Mapping]]] = ..., of_log: bool = ..., cold: _Optional[_Union[ColdCopy, _Mapping]] = ..., cold_version: _Optional[int] = ...) -> None: ...

class ColdCopy(_message.Message):
    __slots__ = ("url", "key", "part_starts", "size_bytes", "at_ms")
    URL_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PART_STARTS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    url: str
    key: str
    part_starts: _containers.RepeatedScalarFieldContainer[int]
    size_bytes: int
    at_ms: int
    def __init__(self, url: _Optional[str] = ..., key: _Optional[str] = ..., part_starts: _Optional[_Iterable[int]] = ..., size_bytes: _Optional[int] = ..., at_ms: _Optional[int] = ...) -> None: ...

class ColdIndex(_message.Message):
    __slots__ = ("format_version", "ledger_id", "ledger", "part", "digest_bytes", "first_entries", "offsets", "crcs", "compressed")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    DIGEST_BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    CRCS_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    ledger_id: int
    ledger: Ledger
    part: int
    digest_bytes: int
    first_entries: _containers.RepeatedScalarFieldContainer[int]
    offsets: _containers.RepeatedScalarFieldContainer[int]
    crcs: _containers.RepeatedScalarFieldContainer[int]
    compressed: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, format_version: _Optional[int] = ..., ledger_id: _Optional[int] = ..., ledger: _Optional[_Union[Ledger, _Mapping]] = ..., part: _Optional[int] = ..., digest_bytes: _Optional[int] = ..., first_entries: _Optional[_Iterable[int]] = ..., offsets: _Optional[_Iterable[int]] = ..., crcs: _Optional[_Iterable[int]] = ..., compressed: _Optional[_Iterable[bool]] = ...) -> None: ...

class ColdRemoval(_message.Message):
    __slots__ = ("format_version", "ledger_id", "url", "added_ms", "may_grow")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    ADDED_MS_FIELD_NUMBER: _ClassVar[int]
    MAY_GROW_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    ledger_id: int
    url: str
    added_ms: int
    may_grow: bool
    def __init__(self, format_version: _Optional[int] = ..., ledger_id: _Optional[int] = ..., url: _Optional[str] = ..., added_ms: _Optional[int] = ..., may_grow: bool = ...) -> None: ...

class FragmentNote(_message.Message):
    __slots__ = ("format_version", "ledger_id", "ledger")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    ledger_id: int
    ledger: Ledger
    def __init__(self, format_version: _Optional[int] = ..., ledger_id: _Optional[int] = ..., ledger: _Optional[_Union[Ledger, _Mapping]] = ...) -> None: ...

class AcceptedLoss(_message.Message):
    __slots__ = ("at_ms", "by", "proven_through", "missing", "to_fence")
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    PROVEN_THROUGH_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    TO_FENCE_FIELD_NUMBER: _ClassVar[int]
    at_ms: int
    by: str
    proven_through: int
    missing: _containers.RepeatedCompositeFieldContainer[BookieRef]
    to_fence: _containers.RepeatedCompositeFieldContainer[BookieRef]
    def __init__(self, at_ms: _Optional[int] = ..., by: _Optional[str] = ..., proven_through: _Optional[int] = ..., missing: _Optional[_Iterable[_Union[BookieRef, _Mapping]]] = ..., to_fence: _Optional[_Iterable[_Union[BookieRef, _Mapping]]] = ...) -> None: ...

class Cookie(_message.Message):
    __slots__ = ("format_version", "cluster_id", "bookie_id", "incarnation", "predecessors")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PREDECESSORS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    cluster_id: str
    bookie_id: str
    incarnation: str
    predecessors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, format_version: _Optional[int] = ..., cluster_id: _Optional[str] = ..., bookie_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., predecessors: _Optional[_Iterable[str]] = ...) -> None: ...

class Decommissioned(_message.Message):
    __slots__ = ("format_version", "bookie_id", "at_ms", "nonce", "predecessors")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    PREDECESSORS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    bookie_id: str
    at_ms: int
    nonce: bytes
    predecessors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, format_version: _Optional[int] = ..., bookie_id: _Optional[str] = ..., at_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ..., predecessors: _Optional[_Iterable[str]] = ...) -> None: ...

class Registration(_message.Message):
    __slots__ = ("format_version", "bookie_id", "incarnation", "address", "fault_domain", "session", "read_only", "disk_bytes_total", "disk_bytes_free", "version", "takes_no_copies", "reading_key", "amiss")
    class AmissEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FAULT_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FREE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAKES_NO_COPIES_FIELD_NUMBER: _ClassVar[int]
    READING_KEY_FIELD_NUMBER: _ClassVar[int]
    AMISS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    bookie_id: str
    incarnation: str
    address: str
    fault_domain: str
    session: bytes
    read_only: bool
    disk_bytes_total: int
    disk_bytes_free: int
    version: str
    takes_no_copies: bool
    reading_key: bytes
    amiss: _containers.ScalarMap[str, str]
    def __init__(self, format_version: _Optional[int] = ..., bookie_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., address: _Optional[str] = ..., fault_domain: _Optional[str] = ..., session: _Optional[bytes] = ..., read_only: bool = ..., disk_bytes_total: _Optional[int] = ..., disk_bytes_free: _Optional[int] = ..., version: _Optional[str] = ..., takes_no_copies: bool = ..., reading_key: _Optional[bytes] = ..., amiss: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Life(_message.Message):
    __slots__ = ("format_version", "incarnation", "number", "nonce", "position", "renewals", "last", "at_ms", "returned")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    RENEWALS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    AT_MS_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    incarnation: str
    number: int
    nonce: bytes
    position: int
    renewals: int
    last: Registration
    at_ms: int
    returned: int
    def __init__(self, format_version: _Optional[int] = ..., incarnation: _Optional[str] = ..., number: _Optional[int] = ..., nonce: _Optional[bytes] = ..., position: _Optional[int] = ..., renewals: _Optional[int] = ..., last: _Optional[_Union[Registration, _Mapping]] = ..., at_ms: _Optional[int] = ..., returned: _Optional[int] = ...) -> None: ...

class Collected(_message.Message):
    __slots__ = ("format_version", "incarnation", "revision", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    incarnation: str
    revision: int
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., incarnation: _Optional[str] = ..., revision: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class UnderReplicated(_message.Message):
    __slots__ = ("format_version", "since_ms", "reasons", "tries", "why_not", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    since_ms: int
    reasons: _containers.RepeatedScalarFieldContainer[str]
    tries: int
    why_not: str
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., since_ms: _Optional[int] = ..., reasons: _Optional[_Iterable[str]] = ..., tries: _Optional[int] = ..., why_not: _Optional[str] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class Absence(_message.Message):
    __slots__ = ("format_version", "incarnation", "since_ms", "nonce", "absent_ms")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    ABSENT_MS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    incarnation: str
    since_ms: int
    nonce: bytes
    absent_ms: int
    def __init__(self, format_version: _Optional[int] = ..., incarnation: _Optional[str] = ..., since_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ..., absent_ms: _Optional[int] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("format_version", "kind", "since_ms", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    kind: OrderKind
    since_ms: int
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., kind: _Optional[_Union[OrderKind, str]] = ..., since_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class Moves(_message.Message):
    __slots__ = ("format_version", "moves", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    moves: _containers.RepeatedCompositeFieldContainer[Move]
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., moves: _Optional[_Iterable[_Union[Move, _Mapping]]] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class Move(_message.Message):
    __slots__ = ("first_entry", "old_bookie", "old_incarnation", "new_bookie", "new_incarnation")
    FIRST_ENTRY_FIELD_NUMBER: _ClassVar[int]
    OLD_BOOKIE_FIELD_NUMBER: _ClassVar[int]
    OLD_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NEW_BOOKIE_FIELD_NUMBER: _ClassVar[int]
    NEW_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    first_entry: int
    old_bookie: str
    old_incarnation: str
    new_bookie: str
    new_incarnation: str
    def __init__(self, first_entry: _Optional[int] = ..., old_bookie: _Optional[str] = ..., old_incarnation: _Optional[str] = ..., new_bookie: _Optional[str] = ..., new_incarnation: _Optional[str] = ...) -> None: ...

class Holder(_message.Message):
    __slots__ = ("format_version", "bookie_id", "incarnation", "since_ms", "bytes_done", "nonce", "unreachable", "called_at", "silent_cursors", "counts", "counted_ms")
    class UnreachableEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class CalledAtEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    BYTES_DONE_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    CALLED_AT_FIELD_NUMBER: _ClassVar[int]
    SILENT_CURSORS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    COUNTED_MS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    bookie_id: str
    incarnation: str
    since_ms: int
    bytes_done: int
    nonce: bytes
    unreachable: _containers.ScalarMap[str, str]
    called_at: _containers.ScalarMap[str, str]
    silent_cursors: _containers.RepeatedScalarFieldContainer[str]
    counts: str
    counted_ms: int
    def __init__(self, format_version: _Optional[int] = ..., bookie_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., since_ms: _Optional[int] = ..., bytes_done: _Optional[int] = ..., nonce: _Optional[bytes] = ..., unreachable: _Optional[_Mapping[str, str]] = ..., called_at: _Optional[_Mapping[str, str]] = ..., silent_cursors: _Optional[_Iterable[str]] = ..., counts: _Optional[str] = ..., counted_ms: _Optional[int] = ...) -> None: ...

class Restored(_message.Message):
    __slots__ = ("format_version", "backup_ms", "restored_ms", "nonce", "noticed", "is_rebuilt", "heard")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    BACKUP_MS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    NOTICED_FIELD_NUMBER: _ClassVar[int]
    IS_REBUILT_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    backup_ms: int
    restored_ms: int
    nonce: bytes
    noticed: Noticed
    is_rebuilt: bool
    heard: _containers.RepeatedCompositeFieldContainer[BookieRef]
    def __init__(self, format_version: _Optional[int] = ..., backup_ms: _Optional[int] = ..., restored_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ..., noticed: _Optional[_Union[Noticed, _Mapping]] = ..., is_rebuilt: bool = ..., heard: _Optional[_Iterable[_Union[BookieRef, _Mapping]]] = ...) -> None: ...

class Noticed(_message.Message):
    __slots__ = ("bookie_id", "compared", "found", "expected")
    BOOKIE_ID_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    bookie_id: str
    compared: str
    found: int
    expected: int
    def __init__(self, bookie_id: _Optional[str] = ..., compared: _Optional[str] = ..., found: _Optional[int] = ..., expected: _Optional[int] = ...) -> None: ...

class Misfits(_message.Message):
    __slots__ = ("format_version", "incarnation", "restored_nonce", "unknown", "open_elsewhere", "closed_elsewhere", "unknown_ledgers", "open_ledgers", "closed_ledgers", "nonce", "lacking", "lacking_ledgers", "cut_short", "cut_short_ledgers")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RESTORED_NONCE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    OPEN_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    OPEN_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    LACKING_FIELD_NUMBER: _ClassVar[int]
    LACKING_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    CUT_SHORT_FIELD_NUMBER: _ClassVar[int]
    CUT_SHORT_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    incarnation: str
    restored_nonce: bytes
    unknown: int
    open_elsewhere: int
    closed_elsewhere: int
    unknown_ledgers: _containers.RepeatedScalarFieldContainer[int]
    open_ledgers: _containers.RepeatedScalarFieldContainer[int]
    closed_ledgers: _containers.RepeatedScalarFieldContainer[int]
    nonce: bytes
    lacking: int
    lacking_ledgers: _containers.RepeatedScalarFieldContainer[int]
    cut_short: int
    cut_short_ledgers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, format_version: _Optional[int] = ..., incarnation: _Optional[str] = ..., restored_nonce: _Optional[bytes] = ..., unknown: _Optional[int] = ..., open_elsewhere: _Optional[int] = ..., closed_elsewhere: _Optional[int] = ..., unknown_ledgers: _Optional[_Iterable[int]] = ..., open_ledgers: _Optional[_Iterable[int]] = ..., closed_ledgers: _Optional[_Iterable[int]] = ..., nonce: _Optional[bytes] = ..., lacking: _Optional[int] = ..., lacking_ledgers: _Optional[_Iterable[int]] = ..., cut_short: _Optional[int] = ..., cut_short_ledgers: _Optional[_Iterable[int]] = ...) -> None: ...

class JournalStorage(_message.Message):
    __slots__ = ("layout_version", "namespace_id", "cluster_id", "c_time")
    LAYOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_ID_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    C_TIME_FIELD_NUMBER: _ClassVar[int]
    layout_version: int
    namespace_id: int
    cluster_id: str
    c_time: int
    def __init__(self, layout_version: _Optional[int] = ..., namespace_id: _Optional[int] = ..., cluster_id: _Optional[str] = ..., c_time: _Optional[int] = ...) -> None: ...

class OpenSegment(_message.Message):
    __slots__ = ("start_txid", "ledger_id", "layout_version", "writer_epoch", "end_txid", "finalized")
    START_TXID_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    END_TXID_FIELD_NUMBER: _ClassVar[int]
    FINALIZED_FIELD_NUMBER: _ClassVar[int]
    start_txid: int
    ledger_id: int
    layout_version: int
    writer_epoch: int
    end_txid: int
    finalized: bool
    def __init__(self, start_txid: _Optional[int] = ..., ledger_id: _Optional[int] = ..., layout_version: _Optional[int] = ..., writer_epoch: _Optional[int] = ..., end_txid: _Optional[int] = ..., finalized: bool = ...) -> None: ...

class AcceptedRecovery(_message.Message):
    __slots__ = ("start_txid", "end_txid", "in_progress", "epoch")
    START_TXID_FIELD_NUMBER: _ClassVar[int]
    END_TXID_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    start_txid: int
    end_txid: int
    in_progress: bool
    epoch: int
    def __init__(self, start_txid: _Optional[int] = ..., end_txid: _Optional[int] = ..., in_progress: bool = ..., epoch: _Optional[int] = ...) -> None: ...

class DroppedSegments(_message.Message):
    __slots__ = ("generation_min", "generation_max", "start_txid_min")
    GENERATION_MIN_FIELD_NUMBER: _ClassVar[int]
    GENERATION_MAX_FIELD_NUMBER: _ClassVar[int]
    START_TXID_MIN_FIELD_NUMBER: _ClassVar[int]
    generation_min: int
    generation_max: int
    start_txid_min: int
    def __init__(self, generation_min: _Optional[int] = ..., generation_max: _Optional[int] = ..., start_txid_min: _Optional[int] = ...) -> None: ...

class Journal(_message.Message):
    __slots__ = ("format_version", "storage", "last_promised_epoch", "last_writer_epoch", "committed_txid", "segments", "accepted", "last_finalized_start", "purged_below", "generation", "dropped", "replaced_ledgers", "previous", "nonce", "owner", "joined_behind", "epochs_above")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    LAST_PROMISED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TXID_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    LAST_FINALIZED_START_FIELD_NUMBER: _ClassVar[int]
    PURGED_BELOW_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    REPLACED_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    JOINED_BEHIND_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_ABOVE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    storage: JournalStorage
    last_promised_epoch: int
    last_writer_epoch: int
    committed_txid: int
    segments: _containers.RepeatedCompositeFieldContainer[OpenSegment]
    accepted: _containers.RepeatedCompositeFieldContainer[AcceptedRecovery]
    last_finalized_start: int
    purged_below: int
    generation: int
    dropped: _containers.RepeatedCompositeFieldContainer[DroppedSegments]
    replaced_ledgers: _containers.RepeatedScalarFieldContainer[int]
    previous: Journal
    nonce: bytes
    owner: bytes
    joined_behind: int
    epochs_above: int
    def __init__(self, format_version: _Optional[int] = ..., storage: _Optional[_Union[JournalStorage, _Mapping]] = ..., last_promised_epoch: _Optional[int] = ..., last_writer_epoch: _Optional[int] = ..., committed_txid: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[OpenSegment, _Mapping]]] = ..., accepted: _Optional[_Iterable[_Union[AcceptedRecovery, _Mapping]]] = ..., last_finalized_start: _Optional[int] = ..., purged_below: _Optional[int] = ..., generation: _Optional[int] = ..., dropped: _Optional[_Iterable[_Union[DroppedSegments, _Mapping]]] = ..., replaced_ledgers: _Optional[_Iterable[int]] = ..., previous: _Optional[_Union[Journal, _Mapping]] = ..., nonce: _Optional[bytes] = ..., owner: _Optional[bytes] = ..., joined_behind: _Optional[int] = ..., epochs_above: _Optional[int] = ...) -> None: ...

class FinalizedSegment(_message.Message):
    __slots__ = ("format_version", "start_txid", "end_txid", "ledger_id", "layout_version", "writer_epoch", "generation", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    START_TXID_FIELD_NUMBER: _ClassVar[int]
    END_TXID_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    start_txid: int
    end_txid: int
    ledger_id: int
    layout_version: int
    writer_epoch: int
    generation: int
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., start_txid: _Optional[int] = ..., end_txid: _Optional[int] = ..., ledger_id: _Optional[int] = ..., layout_version: _Optional[int] = ..., writer_epoch: _Optional[int] = ..., generation: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class JournalNode(_message.Message):
    __slots__ = ("format_version", "name", "rpc_address", "http_address", "session")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HTTP_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    name: str
    rpc_address: str
    http_address: str
    session: bytes
    def __init__(self, format_version: _Optional[int] = ..., name: _Optional[str] = ..., rpc_address: _Optional[str] = ..., http_address: _Optional[str] = ..., session: _Optional[bytes] = ...) -> None: ...

class LogSegment(_message.Message):
    __slots__ = ("ledger_id", "first_position", "epoch", "begun_us", "end_position", "ended_us", "length_bytes")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_POSITION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BEGUN_US_FIELD_NUMBER: _ClassVar[int]
    END_POSITION_FIELD_NUMBER: _ClassVar[int]
    ENDED_US_FIELD_NUMBER: _ClassVar[int]
    LENGTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    ledger_id: int
    first_position: int
    epoch: int
    begun_us: int
    end_position: int
    ended_us: int
    length_bytes: int
    def __init__(self, ledger_id: _Optional[int] = ..., first_position: _Optional[int] = ..., epoch: _Optional[int] = ..., begun_us: _Optional[int] = ..., end_position: _Optional[int] = ..., ended_us: _Optional[int] = ..., length_bytes: _Optional[int] = ...) -> None: ...

class Log(_message.Message):
    __slots__ = ("format_version", "identity", "name", "owner", "ensemble_size", "write_quorum", "ack_quorum", "digest_type", "roll_bytes", "roll_records", "roll_ms", "epoch", "writer", "first_position", "segments", "paged_through", "obsolete_ledgers", "legal_hold", "deleted", "created_ms", "nonce", "next_name", "election", "token", "producers_from", "retention", "member", "forks", "makers", "forking", "successor")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ENSEMBLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    WRITE_QUORUM_FIELD_NUMBER: _ClassVar[int]
    ACK_QUORUM_FIELD_NUMBER: _ClassVar[int]
    DIGEST_TYPE_FIELD_NUMBER: _ClassVar[int]
    ROLL_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROLL_RECORDS_FIELD_NUMBER: _ClassVar[int]
    ROLL_MS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    FIRST_POSITION_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    PAGED_THROUGH_FIELD_NUMBER: _ClassVar[int]
    OBSOLETE_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    LEGAL_HOLD_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    NEXT_NAME_FIELD_NUMBER: _ClassVar[int]
    ELECTION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FROM_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    FORKS_FIELD_NUMBER: _ClassVar[int]
    MAKERS_FIELD_NUMBER: _ClassVar[int]
    FORKING_FIELD_NUMBER: _ClassVar[int]
    SUCCESSOR_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    identity: bytes
    name: str
    owner: str
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    digest_type: DigestType
    roll_bytes: int
    roll_records: int
    roll_ms: int
    epoch: int
    writer: str
    first_position: int
    segments: _containers.RepeatedCompositeFieldContainer[LogSegment]
    paged_through: int
    obsolete_ledgers: _containers.RepeatedScalarFieldContainer[int]
    legal_hold: bool
    deleted: bool
    created_ms: int
    nonce: bytes
    next_name: str
    election: str
    token: int
    producers_from: int
    retention: LogRetention
    member: LogSetMember
    forks: _containers.RepeatedCompositeFieldContainer[LogFork]
    makers: _containers.RepeatedCompositeFieldContainer[LogMaker]
    forking: bool
    successor: LogSuccessor
    def __init__(self, format_version: _Optional[int] = ..., identity: _Optional[bytes] = ..., name: _Optional[str] = ..., owner: _Optional[str] = ..., ensemble_size: _Optional[int] = ..., write_quorum: _Optional[int] = ..., ack_quorum: _Optional[int] = ..., digest_type: _Optional[_Union[DigestType, str]] = ..., roll_bytes: _Optional[int] = ..., roll_records: _Optional[int] = ..., roll_ms: _Optional[int] = ..., epoch: _Optional[int] = ..., writer: _Optional[str] = ..., first_position: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[LogSegment, _Mapping]]] = ..., paged_through: _Optional[int] = ..., obsolete_ledgers: _Optional[_Iterable[int]] = ..., legal_hold: bool = ..., deleted: bool = ..., created_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ..., next_name: _Optional[str] = ..., election: _Optional[str] = ..., token: _Optional[int] = ..., producers_from: _Optional[int] = ..., retention: _Optional[_Union[LogRetention, _Mapping]] = ..., member: _Optional[_Union[LogSetMember, _Mapping]] = ..., forks: _Optional[_Iterable[_Union[LogFork, _Mapping]]] = ..., makers: _Optional[_Iterable[_Union[LogMaker, _Mapping]]] = ..., forking: bool = ..., successor: _Optional[_Union[LogSuccessor, _Mapping]] = ...) -> None: ...

class LogFork(_message.Message):
    __slots__ = ("identity", "start", "stop")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    start: int
    stop: int
    def __init__(self, identity: _Optional[bytes] = ..., start: _Optional[int] = ..., stop: _Optional[int] = ...) -> None: ...

class LogSuccessor(_message.Message):
    __slots__ = ("identity", "name")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    name: str
    def __init__(self, identity: _Optional[bytes] = ..., name: _Optional[str] = ...) -> None: ...

class LogMaker(_message.Message):
    __slots__ = ("identity", "stop")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    stop: int
    def __init__(self, identity: _Optional[bytes] = ..., stop: _Optional[int] = ...) -> None: ...

class LogSetMember(_message.Message):
    __slots__ = ("log_set", "number", "logs", "generation")
    LOG_SET_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    log_set: bytes
    number: int
    logs: int
    generation: int
    def __init__(self, log_set: _Optional[bytes] = ..., number: _Optional[int] = ..., logs: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class LogRetention(_message.Message):
    __slots__ = ("age_ms", "bytes", "cursors", "cursor_silent_ms")
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CURSORS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_SILENT_MS_FIELD_NUMBER: _ClassVar[int]
    age_ms: int
    bytes: int
    cursors: _containers.RepeatedScalarFieldContainer[str]
    cursor_silent_ms: int
    def __init__(self, age_ms: _Optional[int] = ..., bytes: _Optional[int] = ..., cursors: _Optional[_Iterable[str]] = ..., cursor_silent_ms: _Optional[int] = ...) -> None: ...

class LogSilences(_message.Message):
    __slots__ = ("format_version", "silences", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    SILENCES_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    silences: _containers.RepeatedCompositeFieldContainer[CursorSilence]
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., silences: _Optional[_Iterable[_Union[CursorSilence, _Mapping]]] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class CursorSilence(_message.Message):
    __slots__ = ("cursor", "cursor_version", "silent_ms")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    CURSOR_VERSION_FIELD_NUMBER: _ClassVar[int]
    SILENT_MS_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    cursor_version: int
    silent_ms: int
    def __init__(self, cursor: _Optional[str] = ..., cursor_version: _Optional[int] = ..., silent_ms: _Optional[int] = ...) -> None: ...

class Producers(_message.Message):
    __slots__ = ("format_version", "producers", "forgotten", "forgotten_count", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    producers: _containers.RepeatedCompositeFieldContainer[Producer]
    forgotten: bytes
    forgotten_count: int
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., producers: _Optional[_Iterable[_Union[Producer, _Mapping]]] = ..., forgotten: _Optional[bytes] = ..., forgotten_count: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class Producer(_message.Message):
    __slots__ = ("name", "heard_us", "sequences", "positions", "counts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HEARD_US_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    heard_us: int
    sequences: _containers.RepeatedScalarFieldContainer[int]
    positions: _containers.RepeatedScalarFieldContainer[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., heard_us: _Optional[int] = ..., sequences: _Optional[_Iterable[int]] = ..., positions: _Optional[_Iterable[int]] = ..., counts: _Optional[_Iterable[int]] = ...) -> None: ...

class LogPage(_message.Message):
    __slots__ = ("format_version", "segments", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    segments: _containers.RepeatedCompositeFieldContainer[LogSegment]
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[LogSegment, _Mapping]]] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class LogPageTime(_message.Message):
    __slots__ = ("format_version", "end_position", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    END_POSITION_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    end_position: int
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., end_position: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class LogName(_message.Message):
    __slots__ = ("format_version", "identity", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    identity: bytes
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., identity: _Optional[bytes] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class Election(_message.Message):
    __slots__ = ("format_version", "token", "leader", "since_ms", "nonce", "candidate")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    token: int
    leader: str
    since_ms: int
    nonce: bytes
    candidate: str
    def __init__(self, format_version: _Optional[int] = ..., token: _Optional[int] = ..., leader: _Optional[str] = ..., since_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ..., candidate: _Optional[str] = ...) -> None: ...

class Cursor(_message.Message):
    __slots__ = ("format_version", "position", "generation", "epoch", "consumer", "changed_ms", "nonce")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    CHANGED_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    position: int
    generation: int
    epoch: int
    consumer: str
    changed_ms: int
    nonce: bytes
    def __init__(self, format_version: _Optional[int] = ..., position: _Optional[int] = ..., generation: _Optional[int] = ..., epoch: _Optional[int] = ..., consumer: _Optional[str] = ..., changed_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("format_version", "name", "since_ms")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    name: str
    since_ms: int
    def __init__(self, format_version: _Optional[int] = ..., name: _Optional[str] = ..., since_ms: _Optional[int] = ...) -> None: ...

class LogSet(_message.Message):
    __slots__ = ("format_version", "logs", "growths", "growing_to", "nonce", "deleted", "model", "generation", "unsettled")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    GROWTHS_FIELD_NUMBER: _ClassVar[int]
    GROWING_TO_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    logs: int
    growths: _containers.RepeatedCompositeFieldContainer[LogSetGrowth]
    growing_to: int
    nonce: bytes
    deleted: bool
    model: bytes
    generation: int
    unsettled: bool
    def __init__(self, format_version: _Optional[int] = ..., logs: _Optional[int] = ..., growths: _Optional[_Iterable[_Union[LogSetGrowth, _Mapping]]] = ..., growing_to: _Optional[int] = ..., nonce: _Optional[bytes] = ..., deleted: bool = ..., model: _Optional[bytes] = ..., generation: _Optional[int] = ..., unsettled: bool = ...) -> None: ...

class LogSetGrowth(_message.Message):
    __slots__ = ("ends",)
    ENDS_FIELD_NUMBER: _ClassVar[int]
    ends: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ends: _Optional[_Iterable[int]] = ...) -> None: ...

class LogSetShares(_message.Message):
    __slots__ = ("format_version", "owners", "nonce", "begun_with")
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    BEGUN_WITH_FIELD_NUMBER: _ClassVar[int]
    format_version: int
    owners: _containers.RepeatedScalarFieldContainer[str]
    nonce: bytes
    begun_with: int
    def __init__(self, format_version: _Optional[int] = ..., owners: _Optional[_Iterable[str]] = ..., nonce: _Optional[bytes] = ..., begun_with: _Optional[int] = ...) -> None: ...
