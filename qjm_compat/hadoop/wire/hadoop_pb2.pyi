from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RequestHeader(_message.Message):
    __slots__ = ("rpc_kind", "rpc_op", "call_id", "client_id", "retry_count")
    RPC_KIND_FIELD_NUMBER: _ClassVar[int]
    RPC_OP_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    rpc_kind: int
    rpc_op: int
    call_id: int
    client_id: bytes
    retry_count: int
    def __init__(self, rpc_kind: _Optional[int] = ..., rpc_op: _Optional[int] = ..., call_id: _Optional[int] = ..., client_id: _Optional[bytes] = ..., retry_count: _Optional[int] = ...) -> None: ...

class UserInfo(_message.Message):
    __slots__ = ("effective_user", "real_user")
    EFFECTIVE_USER_FIELD_NUMBER: _ClassVar[int]
    REAL_USER_FIELD_NUMBER: _ClassVar[int]
    effective_user: str
    real_user: str
    def __init__(self, effective_user: _Optional[str] = ..., real_user: _Optional[str] = ...) -> None: ...

class ConnectionContext(_message.Message):
    __slots__ = ("user_info", "protocol")
    USER_INFO_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    user_info: UserInfo
    protocol: str
    def __init__(self, user_info: _Optional[_Union[UserInfo, _Mapping]] = ..., protocol: _Optional[str] = ...) -> None: ...

class CallHeader(_message.Message):
    __slots__ = ("method", "protocol", "version")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    method: str
    protocol: str
    version: int
    def __init__(self, method: _Optional[str] = ..., protocol: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class ResponseHeader(_message.Message):
    __slots__ = ("call_id", "status", "ipc_version", "exception_class", "error_message", "error_detail", "client_id", "retry_count", "own_class")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    IPC_VERSION_FIELD_NUMBER: _ClassVar[int]
    EXCEPTION_CLASS_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_DETAIL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    RETRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    OWN_CLASS_FIELD_NUMBER: _ClassVar[int]
    call_id: int
    status: int
    ipc_version: int
    exception_class: str
    error_message: str
    error_detail: int
    client_id: bytes
    retry_count: int
    own_class: str
    def __init__(self, call_id: _Optional[int] = ..., status: _Optional[int] = ..., ipc_version: _Optional[int] = ..., exception_class: _Optional[str] = ..., error_message: _Optional[str] = ..., error_detail: _Optional[int] = ..., client_id: _Optional[bytes] = ..., retry_count: _Optional[int] = ..., own_class: _Optional[str] = ...) -> None: ...

class Sasl(_message.Message):
    __slots__ = ("version", "state")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    version: int
    state: int
    def __init__(self, version: _Optional[int] = ..., state: _Optional[int] = ...) -> None: ...

class JournalId(_message.Message):
    __slots__ = ("identifier",)
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    identifier: str
    def __init__(self, identifier: _Optional[str] = ...) -> None: ...

class RequestInfo(_message.Message):
    __slots__ = ("journal_id", "epoch", "serial", "committed_txid", "name_service_id")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TXID_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    epoch: int
    serial: int
    committed_txid: int
    name_service_id: str
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., epoch: _Optional[int] = ..., serial: _Optional[int] = ..., committed_txid: _Optional[int] = ..., name_service_id: _Optional[str] = ...) -> None: ...

class SegmentState(_message.Message):
    __slots__ = ("start_txid", "end_txid", "in_progress", "writer_epoch")
    START_TXID_FIELD_NUMBER: _ClassVar[int]
    END_TXID_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    start_txid: int
    end_txid: int
    in_progress: bool
    writer_epoch: int
    def __init__(self, start_txid: _Optional[int] = ..., end_txid: _Optional[int] = ..., in_progress: bool = ..., writer_epoch: _Optional[int] = ...) -> None: ...

class StorageInfo(_message.Message):
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

class NamespaceInfo(_message.Message):
    __slots__ = ("build_version", "unused", "block_pool_id", "storage", "software_version")
    BUILD_VERSION_FIELD_NUMBER: _ClassVar[int]
    UNUSED_FIELD_NUMBER: _ClassVar[int]
    BLOCK_POOL_ID_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    build_version: str
    unused: int
    block_pool_id: str
    storage: StorageInfo
    software_version: str
    def __init__(self, build_version: _Optional[str] = ..., unused: _Optional[int] = ..., block_pool_id: _Optional[str] = ..., storage: _Optional[_Union[StorageInfo, _Mapping]] = ..., software_version: _Optional[str] = ...) -> None: ...

class RemoteEditLog(_message.Message):
    __slots__ = ("start_txid", "end_txid", "in_progress", "writer_epoch", "committed_txid", "accepted_in_epoch")
    START_TXID_FIELD_NUMBER: _ClassVar[int]
    END_TXID_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TXID_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_IN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    start_txid: int
    end_txid: int
    in_progress: bool
    writer_epoch: int
    committed_txid: int
    accepted_in_epoch: int
    def __init__(self, start_txid: _Optional[int] = ..., end_txid: _Optional[int] = ..., in_progress: bool = ..., writer_epoch: _Optional[int] = ..., committed_txid: _Optional[int] = ..., accepted_in_epoch: _Optional[int] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("logs", "committed_txid", "purged_below")
    LOGS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TXID_FIELD_NUMBER: _ClassVar[int]
    PURGED_BELOW_FIELD_NUMBER: _ClassVar[int]
    logs: _containers.RepeatedCompositeFieldContainer[RemoteEditLog]
    committed_txid: int
    purged_below: int
    def __init__(self, logs: _Optional[_Iterable[_Union[RemoteEditLog, _Mapping]]] = ..., committed_txid: _Optional[int] = ..., purged_below: _Optional[int] = ...) -> None: ...

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OfJournal(_message.Message):
    __slots__ = ("journal_id", "name_service_id")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    name_service_id: str
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., name_service_id: _Optional[str] = ...) -> None: ...

class IsFormattedReply(_message.Message):
    __slots__ = ("is_formatted",)
    IS_FORMATTED_FIELD_NUMBER: _ClassVar[int]
    is_formatted: bool
    def __init__(self, is_formatted: bool = ...) -> None: ...

class CTimeReply(_message.Message):
    __slots__ = ("c_time",)
    C_TIME_FIELD_NUMBER: _ClassVar[int]
    c_time: int
    def __init__(self, c_time: _Optional[int] = ...) -> None: ...

class DoUpgrade(_message.Message):
    __slots__ = ("journal_id", "storage")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    storage: StorageInfo
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., storage: _Optional[_Union[StorageInfo, _Mapping]] = ...) -> None: ...

class CanRollBack(_message.Message):
    __slots__ = ("journal_id", "storage", "previous", "target_layout_version", "name_service_id")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    TARGET_LAYOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    storage: StorageInfo
    previous: StorageInfo
    target_layout_version: int
    name_service_id: str
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., storage: _Optional[_Union[StorageInfo, _Mapping]] = ..., previous: _Optional[_Union[StorageInfo, _Mapping]] = ..., target_layout_version: _Optional[int] = ..., name_service_id: _Optional[str] = ...) -> None: ...

class CanRollBackReply(_message.Message):
    __slots__ = ("can_roll_back",)
    CAN_ROLL_BACK_FIELD_NUMBER: _ClassVar[int]
    can_roll_back: bool
    def __init__(self, can_roll_back: bool = ...) -> None: ...

class DiscardSegments(_message.Message):
    __slots__ = ("journal_id", "start_txid", "name_service_id")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    START_TXID_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    start_txid: int
    name_service_id: str
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., start_txid: _Optional[int] = ..., name_service_id: _Optional[str] = ...) -> None: ...

class JournalStateReply(_message.Message):
    __slots__ = ("last_promised_epoch", "http_port", "from_url")
    LAST_PROMISED_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    FROM_URL_FIELD_NUMBER: _ClassVar[int]
    last_promised_epoch: int
    http_port: int
    from_url: str
    def __init__(self, last_promised_epoch: _Optional[int] = ..., http_port: _Optional[int] = ..., from_url: _Optional[str] = ...) -> None: ...

class Format(_message.Message):
    __slots__ = ("journal_id", "namespace", "name_service_id", "force")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    namespace: NamespaceInfo
    name_service_id: str
    force: bool
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., namespace: _Optional[_Union[NamespaceInfo, _Mapping]] = ..., name_service_id: _Optional[str] = ..., force: bool = ...) -> None: ...

class NewEpoch(_message.Message):
    __slots__ = ("journal_id", "namespace", "epoch", "name_service_id")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    namespace: NamespaceInfo
    epoch: int
    name_service_id: str
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., namespace: _Optional[_Union[NamespaceInfo, _Mapping]] = ..., epoch: _Optional[int] = ..., name_service_id: _Optional[str] = ...) -> None: ...

class NewEpochReply(_message.Message):
    __slots__ = ("last_segment_txid",)
    LAST_SEGMENT_TXID_FIELD_NUMBER: _ClassVar[int]
    last_segment_txid: int
    def __init__(self, last_segment_txid: _Optional[int] = ...) -> None: ...

class StartLogSegment(_message.Message):
    __slots__ = ("info", "txid", "layout_version")
    INFO_FIELD_NUMBER: _ClassVar[int]
    TXID_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_VERSION_FIELD_NUMBER: _ClassVar[int]
    info: RequestInfo
    txid: int
    layout_version: int
    def __init__(self, info: _Optional[_Union[RequestInfo, _Mapping]] = ..., txid: _Optional[int] = ..., layout_version: _Optional[int] = ...) -> None: ...

class Journal(_message.Message):
    __slots__ = ("info", "first_txid", "num_txns", "records", "segment_txid", "name_service_id")
    INFO_FIELD_NUMBER: _ClassVar[int]
    FIRST_TXID_FIELD_NUMBER: _ClassVar[int]
    NUM_TXNS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_TXID_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    info: RequestInfo
    first_txid: int
    num_txns: int
    records: bytes
    segment_txid: int
    name_service_id: str
    def __init__(self, info: _Optional[_Union[RequestInfo, _Mapping]] = ..., first_txid: _Optional[int] = ..., num_txns: _Optional[int] = ..., records: _Optional[bytes] = ..., segment_txid: _Optional[int] = ..., name_service_id: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("info",)
    INFO_FIELD_NUMBER: _ClassVar[int]
    info: RequestInfo
    def __init__(self, info: _Optional[_Union[RequestInfo, _Mapping]] = ...) -> None: ...

class FinalizeLogSegment(_message.Message):
    __slots__ = ("info", "start_txid", "end_txid")
    INFO_FIELD_NUMBER: _ClassVar[int]
    START_TXID_FIELD_NUMBER: _ClassVar[int]
    END_TXID_FIELD_NUMBER: _ClassVar[int]
    info: RequestInfo
    start_txid: int
    end_txid: int
    def __init__(self, info: _Optional[_Union[RequestInfo, _Mapping]] = ..., start_txid: _Optional[int] = ..., end_txid: _Optional[int] = ...) -> None: ...

class PurgeLogs(_message.Message):
    __slots__ = ("info", "min_txid_to_keep")
    INFO_FIELD_NUMBER: _ClassVar[int]
    MIN_TXID_TO_KEEP_FIELD_NUMBER: _ClassVar[int]
    info: RequestInfo
    min_txid_to_keep: int
    def __init__(self, info: _Optional[_Union[RequestInfo, _Mapping]] = ..., min_txid_to_keep: _Optional[int] = ...) -> None: ...

class GetManifest(_message.Message):
    __slots__ = ("journal_id", "since_txid", "in_progress_ok", "name_service_id")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_TXID_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_OK_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    since_txid: int
    in_progress_ok: bool
    name_service_id: str
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., since_txid: _Optional[int] = ..., in_progress_ok: bool = ..., name_service_id: _Optional[str] = ...) -> None: ...

class ManifestReply(_message.Message):
    __slots__ = ("manifest", "http_port", "from_url")
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    HTTP_PORT_FIELD_NUMBER: _ClassVar[int]
    FROM_URL_FIELD_NUMBER: _ClassVar[int]
    manifest: Manifest
    http_port: int
    from_url: str
    def __init__(self, manifest: _Optional[_Union[Manifest, _Mapping]] = ..., http_port: _Optional[int] = ..., from_url: _Optional[str] = ...) -> None: ...

class GetJournaledEdits(_message.Message):
    __slots__ = ("journal_id", "since_txid", "max_txns", "name_service_id", "from_ledgers")
    JOURNAL_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_TXID_FIELD_NUMBER: _ClassVar[int]
    MAX_TXNS_FIELD_NUMBER: _ClassVar[int]
    NAME_SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_LEDGERS_FIELD_NUMBER: _ClassVar[int]
    journal_id: JournalId
    since_txid: int
    max_txns: int
    name_service_id: str
    from_ledgers: bool
    def __init__(self, journal_id: _Optional[_Union[JournalId, _Mapping]] = ..., since_txid: _Optional[int] = ..., max_txns: _Optional[int] = ..., name_service_id: _Optional[str] = ..., from_ledgers: bool = ...) -> None: ...

class JournaledEditsReply(_message.Message):
    __slots__ = ("txn_count", "edit_log", "writer_epoch", "is_final", "accepted_in_epoch")
    TXN_COUNT_FIELD_NUMBER: _ClassVar[int]
    EDIT_LOG_FIELD_NUMBER: _ClassVar[int]
    WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_FINAL_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_IN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    txn_count: int
    edit_log: bytes
    writer_epoch: int
    is_final: bool
    accepted_in_epoch: int
    def __init__(self, txn_count: _Optional[int] = ..., edit_log: _Optional[bytes] = ..., writer_epoch: _Optional[int] = ..., is_final: bool = ..., accepted_in_epoch: _Optional[int] = ...) -> None: ...

class PrepareRecovery(_message.Message):
    __slots__ = ("info", "segment_txid")
    INFO_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_TXID_FIELD_NUMBER: _ClassVar[int]
    info: RequestInfo
    segment_txid: int
    def __init__(self, info: _Optional[_Union[RequestInfo, _Mapping]] = ..., segment_txid: _Optional[int] = ...) -> None: ...

class PrepareReply(_message.Message):
    __slots__ = ("segment", "accepted_in_epoch", "last_writer_epoch", "last_committed_txid")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_IN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_COMMITTED_TXID_FIELD_NUMBER: _ClassVar[int]
    segment: SegmentState
    accepted_in_epoch: int
    last_writer_epoch: int
    last_committed_txid: int
    def __init__(self, segment: _Optional[_Union[SegmentState, _Mapping]] = ..., accepted_in_epoch: _Optional[int] = ..., last_writer_epoch: _Optional[int] = ..., last_committed_txid: _Optional[int] = ...) -> None: ...

class AcceptRecovery(_message.Message):
    __slots__ = ("info", "state", "from_url")
    INFO_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FROM_URL_FIELD_NUMBER: _ClassVar[int]
    info: RequestInfo
    state: SegmentState
    from_url: str
    def __init__(self, info: _Optional[_Union[RequestInfo, _Mapping]] = ..., state: _Optional[_Union[SegmentState, _Mapping]] = ..., from_url: _Optional[str] = ...) -> None: ...
