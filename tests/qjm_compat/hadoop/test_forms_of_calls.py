"""The forms that calls have from 2.7 to 3.4: pings, more fields in headers, fewer in messages, the other protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

from qjm_compat.hadoop.client.connection import NodeClient
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.hadoop_rpc import INTER_PROTOCOL, JOURNAL_PROTOCOL
from qjm_compat.hadoop.wire.methods import METHODS, method_named
from qjm_compat.hadoop.wire.rpc_framing import frame_of, parts_of
from tests.qjm_compat.hadoop.nodes import (
    CONTEXT,
    GREETING,
    IS_FORMATTED,
    JID,
    NOT_FORMATTED,
    active,
    answer_to,
    on_a_node,
    stranger,
)

PING = frame_of(
    [
        pb.RequestHeader(
            rpc_kind=2, rpc_op=0, call_id=-4, client_id=b"c" * 16, retry_count=-1
        ).SerializeToString()
    ]
)

HEADER_OF_3_4 = bytes.fromhex(
    "3204"
    "08011002"  # trace info: ids of a trace and of its parent
    "3a06"
    "0a04636c6931"  # the caller's context
    "4007"
    "4a0101"  # the state that the caller has seen, alone and federated
)
UNKNOWN = bytes.fromhex("9a06026869a006ac02")
"""A text and a number, under field numbers that no version has."""


async def test_a_ping_is_taken_and_not_answered(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        async with stranger(nodes, PING + IS_FORMATTED + PING + PING + IS_FORMATTED) as (reader, _):
            assert await reader.readexactly(2 * len(NOT_FORMATTED)) == NOT_FORMATTED * 2
        assert b"Unknown out of band call #-4" in await answer_to(nodes, GREETING + PING)


async def test_fields_that_only_later_versions_have_are_ignored_in_every_header(tmp_path: Path) -> None:
    header, call, message = parts_of(IS_FORMATTED[4:])
    later = frame_of([header + HEADER_OF_3_4 + UNKNOWN, call + UNKNOWN, message + UNKNOWN])
    of_context, context = parts_of(CONTEXT[4:])
    said = GREETING + frame_of([of_context + HEADER_OF_3_4 + UNKNOWN, context + UNKNOWN]) + later
    async with on_a_node(tmp_path) as nodes, stranger(nodes, said, introduced=False) as (reader, _):
        assert await reader.readexactly(len(NOT_FORMATTED)) == NOT_FORMATTED


def fill(message: Message, *, optional: bool) -> Any:
    """A message with a value in each field, or in the required ones alone."""
    for field in message.DESCRIPTOR.fields:
        if not (field.is_required or optional) or field.is_repeated:
            continue
        if field.message_type is not None:
            fill(getattr(message, field.name), optional=optional)
            getattr(message, field.name).SetInParent()
        elif field.type == field.TYPE_STRING:
            setattr(message, field.name, "ns1")
        elif field.type == field.TYPE_BYTES:
            setattr(message, field.name, b"edits")
        else:
            setattr(message, field.name, 1)
    return message


EVERY_METHOD = [(protocol, name) for protocol, methods in METHODS.items() for name in methods]


@pytest.mark.parametrize(("protocol", "name"), EVERY_METHOD, ids=[name for _, name in EVERY_METHOD])
def test_every_method_takes_messages_with_unknown_fields_and_without_optional_ones(
    protocol: str, name: str
) -> None:
    method = method_named(protocol, name)
    for optional in (True, False):
        message = fill(method.message(), optional=optional)
        request = method.request_of(message, b"c")
        received = method.parse(message.SerializeToString() + UNKNOWN)
        assert method.request_of(received, b"c") == request


def test_every_method_of_3_4_is_there() -> None:
    wanted = (
        "isFormatted getJournalCTime getJournalState getEditLogManifest getJournaledEdits canRollBack doPreUpgrade "
        "doUpgrade doFinalize doRollback discardSegments format newEpoch startLogSegment journal heartbeat "
        "finalizeLogSegment purgeLogs prepareRecovery acceptRecovery"
    )
    assert set(METHODS[JOURNAL_PROTOCOL]) == set(wanted.split())
    assert set(METHODS[INTER_PROTOCOL]) == {"getEditLogManifestFromJournal", "getStorageInfo"}


async def test_journal_nodes_ask_each_other_through_a_protocol_of_their_own(tmp_path: Path) -> None:
    async with on_a_node(tmp_path) as nodes:
        await active(nodes)
        client = NodeClient(nodes.node.address)
        try:
            ask = pb.GetManifest(journal_id=JID, since_txid=0, name_service_id="ns1")
            method = "getEditLogManifestFromJournal"
            reply = await client.call(method, ask, pb.ManifestReply, INTER_PROTOCOL)
            assert [(log.start_txid, log.end_txid) for log in reply.manifest.logs] == [(1, 2)]
            assert reply.manifest.committed_txid == 3
            assert reply.from_url == f"http://{nodes.node.http_address}"
            storage = await client.call(
                "getStorageInfo", pb.OfJournal(journal_id=JID), pb.StorageInfo, INTER_PROTOCOL
            )
            assert (storage.namespace_id, storage.cluster_id) == (7, "CID-x")
        finally:
            await client.close()
        context = pb.ConnectionContext(protocol=INTER_PROTOCOL)
        of_context, _ = parts_of(CONTEXT[4:])
        said = GREETING + frame_of([of_context, context.SerializeToString()]) + IS_FORMATTED
        async with stranger(nodes, said, introduced=False) as (
            reader,
            _,
        ):  # as a JournalNode introduces itself
            assert len(await reader.readexactly(len(NOT_FORMATTED))) == len(NOT_FORMATTED)
