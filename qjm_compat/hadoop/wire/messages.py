"""Converts QJournalProtocol's messages to our requests and replies, and back."""

from __future__ import annotations

from typing import Any

from metadata.records.journal_record import JournalStorage

from ...edits.frames import encode_header
from ...requests import (
    INVALID_TXID,
    JournaledEdits,
    Manifest,
    NamespaceInfo,
    PrepareReply,
    RemoteEditLog,
    RequestInfo,
    SegmentState,
)
from . import hadoop_pb2 as pb

UNKNOWN_TXID = INVALID_TXID & 0xFFFFFFFFFFFFFFFF
"""Hadoop's "no transaction" in an unsigned field."""

_BITS_32, _BITS_64 = 1 << 32, 1 << 64


def signed_32(number: int) -> int:
    return number - _BITS_32 if number >= _BITS_32 // 2 else number


def signed_64(number: int) -> int:
    return number - _BITS_64 if number >= _BITS_64 // 2 else number


def journal_id_of(message: Any) -> str:
    """The journal of a call, which is in one of two places."""
    named = message.info if "info" in message.DESCRIPTOR.fields_by_name else message
    identifier: str = named.journal_id.identifier
    return identifier


def txid_of(message: Any, field: str) -> int | None:
    """A transaction id that may be missing, or be Hadoop's "none"."""
    if not message.HasField(field):
        return None
    txid = signed_64(getattr(message, field))
    return None if txid == INVALID_TXID else txid


def info_of(info: pb.RequestInfo) -> RequestInfo:
    return RequestInfo(signed_64(info.epoch), signed_64(info.serial), txid_of(info, "committed_txid"))


def info_message(journal_id: str, info: RequestInfo) -> pb.RequestInfo:
    message = pb.RequestInfo(
        journal_id=pb.JournalId(identifier=journal_id), epoch=info.epoch, serial=info.serial
    )
    if info.committed_txid is not None:
        message.committed_txid = info.committed_txid
    return message


def storage_of(message: pb.StorageInfo) -> JournalStorage:
    return JournalStorage(
        signed_32(message.layout_version),
        signed_32(message.namespace_id),
        message.cluster_id,
        signed_64(message.c_time),
    )


def storage_message(storage: JournalStorage) -> pb.StorageInfo:
    """Encodes storage info. Raises ValueError for numbers over Hadoop's 32 bits."""
    for number in (storage.layout_version, storage.namespace_id):
        if not -(2**31) <= number < 2**31:
            raise ValueError(f"{number} has more than 32 bits")
    return pb.StorageInfo(
        layout_version=storage.layout_version & 0xFFFFFFFF,
        namespace_id=storage.namespace_id & 0xFFFFFFFF,
        cluster_id=storage.cluster_id,
        c_time=storage.c_time,
    )


def namespace_of(message: pb.NamespaceInfo) -> NamespaceInfo:
    storage = storage_of(message.storage)
    return NamespaceInfo(
        storage.namespace_id,
        storage.cluster_id,
        message.block_pool_id,
        storage.c_time,
        storage.layout_version,
        message.build_version,
        message.software_version,
    )


def namespace_message(namespace: NamespaceInfo) -> pb.NamespaceInfo:
    return pb.NamespaceInfo(
        build_version=namespace.build_version,
        unused=0,
        block_pool_id=namespace.block_pool_id,
        storage=storage_message(namespace.storage),
        software_version=namespace.software_version,
    )


def segment_of(message: pb.SegmentState) -> SegmentState:
    return SegmentState(
        signed_64(message.start_txid), signed_64(message.end_txid), message.in_progress, message.writer_epoch
    )


def segment_message(segment: SegmentState) -> pb.SegmentState:
    message = pb.SegmentState(
        start_txid=segment.start_txid, end_txid=segment.end_txid, in_progress=segment.in_progress
    )
    if segment.writer_epoch:
        message.writer_epoch = segment.writer_epoch
    return message


def manifest_of(message: pb.Manifest) -> Manifest:
    logs = tuple(_log_of(log) for log in message.logs)
    return Manifest(logs, txid_of(message, "committed_txid"), message.purged_below)


def manifest_message(manifest: Manifest) -> pb.Manifest:
    committed = manifest.committed_txid
    message = pb.Manifest(committed_txid=UNKNOWN_TXID if committed is None else committed)
    if manifest.purged_below:
        message.purged_below = manifest.purged_below
    for log in manifest.logs:
        told = message.logs.add(start_txid=log.start_txid, end_txid=log.end_txid, in_progress=log.in_progress)
        told.writer_epoch, told.accepted_in_epoch = log.writer_epoch, log.accepted_in_epoch
        if log.committed_txid is not None:
            told.committed_txid = log.committed_txid
    return message


def _log_of(log: pb.RemoteEditLog) -> RemoteEditLog:
    return RemoteEditLog(
        log.start_txid,
        signed_64(log.end_txid),
        log.in_progress,
        log.writer_epoch,
        log.committed_txid if log.HasField("committed_txid") else None,
        log.accepted_in_epoch,
    )


def prepare_message(reply: PrepareReply) -> pb.PrepareReply:
    message = pb.PrepareReply(last_writer_epoch=reply.last_writer_epoch)
    if reply.segment is not None:
        message.segment.CopyFrom(segment_message(reply.segment))
    if reply.accepted_in_epoch is not None:
        message.accepted_in_epoch = reply.accepted_in_epoch
    if reply.last_committed_txid is not None:
        message.last_committed_txid = reply.last_committed_txid
    return message


def prepare_of(message: pb.PrepareReply) -> PrepareReply:
    return PrepareReply(
        segment_of(message.segment) if message.HasField("segment") else None,
        message.accepted_in_epoch if message.HasField("accepted_in_epoch") else None,
        message.last_writer_epoch,
        txid_of(message, "last_committed_txid"),
    )


def edits_message(edits: JournaledEdits) -> pb.JournaledEditsReply:
    message = pb.JournaledEditsReply(txn_count=edits.txn_count)
    if edits.txn_count:
        message.edit_log = encode_header(edits.layout_version) + bytes(edits.records)
        message.writer_epoch, message.is_final = edits.writer_epoch, edits.is_final
        message.accepted_in_epoch = edits.accepted_in_epoch
    return message
