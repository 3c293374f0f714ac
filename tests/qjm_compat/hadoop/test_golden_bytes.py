"""Messages as a NameNode and a JournalNode of Hadoop 2.7.3 exchanged them, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from metadata.records.journal_record import JournalStorage
from qjm_compat.edits import encode_op
from qjm_compat.edits.ops.segments import StartLogSegment as StartOfSegment
from qjm_compat.hadoop.wire.hadoop_rpc import JOURNAL_PROTOCOL, Call, Caller, call_in, method_of, success
from qjm_compat.hadoop.wire.methods import METHOD_OF, NOTHING, NodeAddress, method_named
from qjm_compat.hadoop.wire.rpc_framing import parts_of
from qjm_compat.requests import (
    AcceptRecovery,
    FinalizeLogSegment,
    Format,
    GetEditLogManifest,
    GetJournalState,
    IsFormatted,
    JournalStateReply,
    Manifest,
    NamespaceInfo,
    NewEpoch,
    NewEpochReply,
    PrepareRecovery,
    PrepareReply,
    Request,
    RequestInfo,
    SegmentState,
    SendEdits,
    StartLogSegment,
)

CLIENT = bytes.fromhex("5e83af4fa4084e4f8b5fd8089ec85a4b")
CALL = bytes.fromhex(
    "1a08021000180022105e83af4fa4084e4f8b5fd8089ec85a4b28004a0a0b6973466f726d617474656412396f72672e6170616368652e"
    "6861646f6f702e686466732e716a6f75726e616c2e70726f746f636f6c2e514a6f75726e616c50726f746f636f6c1801070a050a036e7331"
)
ANSWER_FALSE = "0000001e1a0800100018093a105e83af4fa4084e4f8b5fd8089ec85a4b4000020800"
ANSWER_VOID = "0000001c1a0801100018093a105e83af4fa4084e4f8b5fd8089ec85a4b400000"

PLACE = NodeAddress("http://localhost:18480", 18480)
NAMESPACE = NamespaceInfo(
    1897918118,
    "CID-03066b40-00d2-410b-af20-d4c089ff001a",
    "BP-1619024696-127.0.0.1-1795252469422",
    build_version="baa91f7c6bc9cb92be5982de4719c1c8af91ccff",
    software_version="2.7.3",
)
NAMESPACE_BYTES = (
    "0a286261613931663763366263396362393262653539383264653437313963316338616639316363666610001a2542502d31363139303234"
    "3639362d3132372e302e302e312d31373935323532343639343232"
    "223808c1ffffff0f10a6ddff88071a284349442d30333036366234302d303064322d343130622d616632302d643463303839666630303161"
    "20002a05322e372e33"
)
START_OF_1 = "180000000c00000000000000017043f0b7"
MKDIR_2 = (
    "03000000400000000000000002000000000000400200032f6431000001a1fd63df45000001a1fd63df4504726f6f740a7375706572"
    "67726f757001ed0000000000091013b9"
)
URL = (
    "http://localhost:18480/getJournal?jid=ns1&segmentTxId=12&storageInfo="
    "-63%3A1897918118%3A0%3ACID-03066b40-00d2-410b-af20-d4c089ff001a"
)

REQUESTS: list[tuple[str, str, Request[Any]]] = [
    ("isFormatted", "0a050a036e7331", IsFormatted()),
    ("format", f"0a050a036e7331129601{NAMESPACE_BYTES}3001", Format(NAMESPACE, force=True)),
    ("getEditLogManifest", "0a050a036e733110002000", GetEditLogManifest(0)),
    ("getJournalState", "0a050a036e7331", GetJournalState()),
    ("newEpoch", f"0a050a036e7331129601{NAMESPACE_BYTES}30011801", NewEpoch(NAMESPACE, 1, CLIENT)),
    (
        "startLogSegment",
        "0a0b0a050a036e7331100118001001187d",
        StartLogSegment(info=RequestInfo(1, 0), txid=1, layout_version=-63),
    ),
    (
        "journal",
        f"0a0b0a050a036e7331100118011001180122 11{START_OF_1}2801",
        SendEdits(
            info=RequestInfo(1, 1),
            segment_txid=1,
            first_txid=1,
            num_txns=1,
            records=bytes.fromhex(START_OF_1),
        ),
    ),
    (
        "journal",
        f"0a0d0a050a036e7331100118022001 10021801 2245 {MKDIR_2} 2801",
        SendEdits(
            info=RequestInfo(1, 2, 1),
            segment_txid=1,
            first_txid=2,
            num_txns=1,
            records=bytes.fromhex(MKDIR_2),
        ),
    ),
    (
        "finalizeLogSegment",
        "0a0d0a050a036e73311001180c200b1001180b",
        FinalizeLogSegment(info=RequestInfo(1, 12, 11), start_txid=1, end_txid=11),
    ),
    (
        "prepareRecovery",
        "0a0b0a050a036e733110021800100c",
        PrepareRecovery(info=RequestInfo(2, 0), segment_txid=12),
    ),
    (
        "acceptRecovery",
        f"0a0b0a050a036e7331100218011206080c100d18011a8401{URL.encode().hex()}",
        AcceptRecovery(info=RequestInfo(2, 1), state=SegmentState(12, 13, in_progress=True), source=URL),
    ),
]
NAMES = [f"{n}-{name}" for n, (name, *_) in enumerate(REQUESTS)]

OF_2_7_ALONE = {"format", "newEpoch"}
"""Our client's have other bytes: 2.7 sends the capabilities of its software, and no `force`."""

ANSWERS: list[tuple[str, str, Any]] = [
    ("isFormatted", "0800", False),
    ("getJournalState", "080010b090011a16687474703a2f2f6c6f63616c686f73743a3138343830", JournalStateReply(0)),
    ("newEpoch", "080c", NewEpochReply(12)),
    ("newEpoch", "", NewEpochReply()),
    ("prepareRecovery", "0a06080c100d18011801200c", PrepareReply(SegmentState(12, 13, True), None, 1, 12)),
    ("startLogSegment", "", None),
    ("journal", "", None),
    ("finalizeLogSegment", "", None),
    ("acceptRecovery", "", None),
    ("format", "", None),
]


@pytest.mark.parametrize(("name", "data", "request_"), REQUESTS, ids=NAMES)
def test_what_a_name_node_sent_is_understood(name: str, data: str, request_: Request[Any]) -> None:
    method = method_named(JOURNAL_PROTOCOL, name)
    message = method.parse(bytes.fromhex(data))
    assert method.request_of(message, CLIENT) == request_


@pytest.mark.parametrize(
    ("name", "data", "request_"), [one for one in REQUESTS if one[0] not in OF_2_7_ALONE]
)
def test_our_client_sends_what_a_name_node_sent(name: str, data: str, request_: Request[Any]) -> None:
    method = METHOD_OF[type(request_)]
    assert method.name == name
    assert method.message_of("ns1", request_).SerializeToString() == bytes.fromhex(data)


@pytest.mark.parametrize(("name", "data", "answer"), ANSWERS)
def test_we_answer_what_a_journal_node_answered(name: str, data: str, answer: Any) -> None:
    message = method_named(JOURNAL_PROTOCOL, name).reply_to(answer, PLACE)
    assert message.SerializeToString() == bytes.fromhex(data)


def test_an_empty_manifest_of_2_7_is_understood_and_ours_says_besides_that_nothing_is_committed() -> None:
    of_2_7 = bytes.fromhex("0a0010b090011a16687474703a2f2f6c6f63616c686f73743a3138343830")
    method = METHOD_OF[GetEditLogManifest]
    assert method.answer_of(method.reply.FromString(of_2_7)) == Manifest((), None)
    ours = method_named(JOURNAL_PROTOCOL, "getEditLogManifest").reply_to(Manifest((), None), PLACE)
    minus_12345 = "10c79fffffffffffffff01"
    assert ours.SerializeToString() == bytes.fromhex("0a0b" + minus_12345) + of_2_7[2:]


def test_a_manifest_tells_our_own_readers_what_was_purged() -> None:
    method = METHOD_OF[GetEditLogManifest]
    told = Manifest((), 9, purged_below=7)
    reply = method_named(JOURNAL_PROTOCOL, "getEditLogManifest").reply_to(told, PLACE)
    assert method.answer_of(method.reply.FromString(reply.SerializeToString())) == told


def test_whole_frames_are_those_that_were_recorded() -> None:
    call = call_in(CALL)
    assert call == Call(Caller(0, CLIENT, 0), tuple(parts_of(CALL)[1:]))
    assert method_of(call) == (JOURNAL_PROTOCOL, "isFormatted", bytes.fromhex("0a050a036e7331"))
    reply = method_named(JOURNAL_PROTOCOL, "isFormatted").reply_to(False, PLACE)
    assert success(call.caller, reply).hex() == ANSWER_FALSE
    assert success(Caller(1, CLIENT, 0), NOTHING).hex() == ANSWER_VOID


def test_the_recorded_edits_are_those_that_we_write() -> None:
    assert encode_op(StartOfSegment(txid=1), -63).hex() == START_OF_1
    assert NAMESPACE.storage == JournalStorage(-63, 1897918118, NAMESPACE.cluster_id, 0)
