"""Hadoop's wire alone: the processor time of a `journal()` call of 8 KiB, from its bytes to the bytes of the answer.

The acceptor behind it answers at once, so nothing but the wire is measured: frame, headers, message, answer.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from qjm_compat.hadoop.server.call_dispatcher import CallDispatcher
from qjm_compat.hadoop.wire import hadoop_pb2 as pb
from qjm_compat.hadoop.wire.hadoop_rpc import call_in
from qjm_compat.hadoop.wire.methods import NodeAddress
from qjm_compat.hadoop.wire.rpc_framing import FRAME_BYTES_MAX, RpcFrameReader
from qjm_compat.requests import BatchDone, SendEdits
from tests.qjm_compat.hadoop.nodes import call_frame
from tests.qjm_compat.journals import frames

CALLS, EDITS, PATH_BYTES = 20_000, 32, 196
ROUNDS = 5

MICROS_MAX = 50.0
"""What a call may cost; more ends the measurement with an error."""


class AtOnce:
    """A node, and its journal: every batch is on disk when it comes."""

    def journal(self, journal_id: str) -> AtOnce:
        return self

    def begin(self, request: SendEdits, done: BatchDone) -> bool:
        assert request.num_txns == EDITS
        done(None)
        return True


async def measure(scratch: Path, share: float) -> None:
    records = frames(1, EDITS, path_bytes=PATH_BYTES)
    calls = [journal_call(number, records) for number in range(int(CALLS * share))]
    best = min(_micros_a_call(calls) for _ in range(ROUNDS))
    print(f"a call of {len(records)} bytes: {best:.1f} µs of the processor in the wire layer", flush=True)
    if best > MICROS_MAX:
        raise SystemExit(f"a call may cost {MICROS_MAX:g} µs there")


def journal_call(number: int, records: bytes) -> bytes:
    """The frame of one, as a stock client sends it."""
    message = pb.Journal(
        info=pb.RequestInfo(
            journal_id=pb.JournalId(identifier="ns1"), epoch=1, serial=number, committed_txid=0
        ),
        first_txid=1,
        num_txns=EDITS,
        segment_txid=1,
        records=records,
    )
    return call_frame("journal", message, number)


def _micros_a_call(calls: list[bytes]) -> float:
    node: Any = AtOnce()
    server, reader, answers = (
        CallDispatcher(node, NodeAddress("http://jn1:8480", 8480)),
        RpcFrameReader(FRAME_BYTES_MAX),
        0,
    )

    def answered(frame: bytes) -> None:
        nonlocal answers
        answers += bool(frame)

    began = time.thread_time()
    for data in calls:
        for frame in reader.feed(data):
            server.begin(call_in(frame), answered)
    took = time.thread_time() - began
    assert answers == len(calls)
    return took / len(calls) * 1e6
