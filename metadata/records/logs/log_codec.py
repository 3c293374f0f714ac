"""Encodes and decodes the records of logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from google.protobuf.message import DecodeError

from ...errors import BadRecord
from ...version import encode_record
from .. import records_pb2 as pb
from ..ledger_codec import DIGEST_FROM_PB, DIGEST_TO_PB
from ..ledger_record import IDENTITY_BYTES, Shape
from .log_record import LogRecord, LogSettings, SetMember
from .retention import Retention
from .segment import Segment, check_chain
from .shared_ledgers import Fork, Maker, Successor

FORMAT_VERSION = 1


def encode(record: LogRecord) -> bytes:
    """Encodes the value of `logs/<identity>`."""
    shape = record.settings.shape
    return encode_record(
        pb.Log(
            format_version=FORMAT_VERSION,
            identity=record.identity,
            name=record.name,
            next_name=record.next_name,
            owner=record.owner,
            ensemble_size=shape.ensemble_size,
            write_quorum=shape.write_quorum,
            ack_quorum=shape.ack_quorum,
            digest_type=DIGEST_TO_PB[record.settings.digest_type],
            roll_bytes=record.settings.roll_bytes,
            roll_records=record.settings.roll_records,
            roll_ms=round(record.settings.roll_seconds * 1000),
            epoch=record.epoch,
            writer=record.writer,
            first_position=record.first_position,
            segments=_messages(record.segments),
            paged_through=record.paged_through,
            obsolete_ledgers=record.obsolete,
            legal_hold=record.legal_hold,
            deleted=record.deleted,
            created_ms=record.created_ms,
            nonce=record.nonce,
            election=record.election,
            token=record.token,
            retention=_retention_message(record.retention),
            producers_from=record.producers_from,
            member=_member_message(record.member),
            forks=[pb.LogFork(**asdict(one)) for one in record.forks],
            makers=[pb.LogMaker(**asdict(one)) for one in record.makers],
            forking=record.forking,
            successor=None if record.successor is None else pb.LogSuccessor(**asdict(record.successor)),
        )
    )


def decode(key: str, value: bytes) -> LogRecord:
    """Decodes a log's record. Raises BadRecord if it cannot be trusted, or was written by a newer program."""
    try:
        message = pb.Log.FromString(value)
        _check_version(message.format_version)
        return _record(message)
    except (DecodeError, ValueError) as error:
        raise BadRecord(key, str(error)) from error


def encode_page(segments: Iterable[Segment], nonce: bytes) -> bytes:
    """Encodes the value of `logpages/<identity>/<position>`."""
    page = pb.LogPage(format_version=FORMAT_VERSION, segments=_messages(segments), nonce=nonce)
    return encode_record(page)


def decode_page(key: str, value: bytes) -> tuple[Segment, ...]:
    """Decodes a page. Raises BadRecord, including for a page whose segments do not form one closed chain."""
    try:
        message = pb.LogPage.FromString(value)
        _check_version(message.format_version)
        segments = _segments(message.segments)
        if not segments or segments[-1].end_position is None:
            raise ValueError("a page has no segments, or has an open one")
        check_chain(segments, segments[0].first_position)
        return segments
    except (DecodeError, ValueError) as error:
        raise BadRecord(key, str(error)) from error


def encode_page_time(end_position: int, nonce: bytes) -> bytes:
    """Encodes the value of `logtimes/<identity>/…`."""
    found = pb.LogPageTime(format_version=FORMAT_VERSION, end_position=end_position, nonce=nonce)
    return encode_record(found)


def decode_page_time(key: str, value: bytes) -> int:
    """Decodes the end position of the page to which a `logtimes/` key leads. Raises BadRecord."""
    try:
        message = pb.LogPageTime.FromString(value)
        _check_version(message.format_version)
        if message.end_position < 0:
            raise ValueError(f"a page cannot end at position {message.end_position}")
    except (DecodeError, ValueError) as error:
        raise BadRecord(key, str(error)) from error
    return message.end_position


def encode_name(identity: bytes, nonce: bytes) -> bytes:
    """Encodes the value of `lognames/<name>`."""
    found = pb.LogName(format_version=FORMAT_VERSION, identity=identity, nonce=nonce)
    return encode_record(found)


def decode_name(key: str, value: bytes) -> bytes:
    """Decodes the identity of the log to which a `lognames/` key leads. Raises BadRecord."""
    try:
        message = pb.LogName.FromString(value)
        _check_version(message.format_version)
        if len(message.identity) != IDENTITY_BYTES:
            raise ValueError(f"a log's identity cannot have {len(message.identity)} bytes")
    except (DecodeError, ValueError) as error:
        raise BadRecord(key, str(error)) from error
    return message.identity


def _check_version(version: int) -> None:
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version}; this program supports {FORMAT_VERSION}")


def _messages(segments: Iterable[Segment]) -> list[pb.LogSegment]:
    return [
        pb.LogSegment(
            ledger_id=s.ledger_id,
            first_position=s.first_position,
            epoch=s.epoch,
            begun_us=s.begun_us,
            end_position=s.end_position,
            ended_us=s.ended_us,
            length_bytes=s.length_bytes,
        )
        for s in segments
    ]


def _segments(messages: Iterable[pb.LogSegment]) -> tuple[Segment, ...]:
    return tuple(
        Segment(
            s.ledger_id,
            s.first_position,
            s.epoch,
            s.begun_us,
            s.end_position if s.HasField("end_position") else None,
            s.ended_us,
            s.length_bytes,
        )
        for s in messages
    )


def _record(message: pb.Log) -> LogRecord:
    if message.digest_type not in DIGEST_FROM_PB:
        raise ValueError(f"unknown digest type {message.digest_type}")
    settings = LogSettings(
        Shape(message.ensemble_size, message.write_quorum, message.ack_quorum),
        DIGEST_FROM_PB[message.digest_type],
        message.roll_bytes,
        message.roll_records,
        message.roll_ms / 1000,
    )
    return LogRecord(
        identity=message.identity,
        name=message.name,
        next_name=message.next_name,
        settings=settings,
        owner=message.owner,
        epoch=message.epoch,
        writer=message.writer,
        first_position=message.first_position,
        segments=_segments(message.segments),
        paged_through=message.paged_through,
        obsolete=tuple(message.obsolete_ledgers),
        legal_hold=message.legal_hold,
        deleted=message.deleted,
        created_ms=message.created_ms,
        nonce=message.nonce,
        election=message.election,
        token=message.token,
        producers_from=message.producers_from if message.HasField("producers_from") else None,
        retention=_retention(message.retention),
        member=_member(message.member) if message.HasField("member") else None,
        forks=tuple(Fork(one.identity, one.start, one.stop) for one in message.forks),
        makers=tuple(Maker(one.identity, one.stop) for one in message.makers),
        forking=message.forking,
        successor=_successor(message.successor) if message.HasField("successor") else None,
    )


def _member_message(member: SetMember | None) -> pb.LogSetMember | None:
    return None if member is None else pb.LogSetMember(**asdict(member))


def _member(message: pb.LogSetMember) -> SetMember:
    return SetMember(message.log_set, message.number, message.logs, message.generation)


def _successor(message: pb.LogSuccessor) -> Successor:
    return Successor(message.identity, message.name)


def _retention_message(retention: Retention) -> pb.LogRetention | None:
    if not retention.is_set:
        return None
    return pb.LogRetention(
        age_ms=round((retention.age_seconds or 0) * 1000),
        bytes=retention.bytes or 0,
        cursors=retention.cursors,
        cursor_silent_ms=round((retention.cursor_silent_seconds or 0) * 1000),
    )


def _retention(message: pb.LogRetention) -> Retention:
    return Retention(
        age_seconds=message.age_ms / 1000 or None,
        bytes=message.bytes or None,
        cursors=tuple(message.cursors),
        cursor_silent_seconds=message.cursor_silent_ms / 1000 or None,
    )
