"""How fast the edit log of HDFS is checked, scanned, decoded and encoded: a real segment, many times over.

Without a real one, directories are made up. Each figure is the best of some runs, in time of the processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from qjm_compat.edits import (
    HEADER_BYTES,
    check_batch,
    decode_header,
    encode_frame,
    encode_op,
    frame_at,
    frame_offsets,
    iter_ops,
    op_to_json,
    scan_segment,
    segment_bytes,
)
from tests.qjm_compat.edits.real_segments import FOLDER, NAMES, segment
from tests.qjm_compat.edits.test_round_trips import MKDIR

SIZE = 50_000_000
DECODED = 20_000
RUNS = 5


async def measure(scratch: Path, share: float) -> None:
    data = _segment(int(SIZE * share))
    layout_version, body = decode_header(data), memoryview(data)[HEADER_BYTES:]
    begins = frame_offsets(body)
    count = len(begins)
    print(f"{len(data) / 1e6:.1f} MB, {count} ops of {len(body) // count} bytes", flush=True)
    _bytes_a_second("scan_segment", len(data), lambda: scan_segment(data))
    _bytes_a_second("check_batch", len(body), lambda: check_batch(body, 1, count))
    _bytes_a_second("frame_offsets", len(body), lambda: frame_offsets(body))
    few = body[: begins[min(DECODED, count - 1)]]
    ops = list(iter_ops(few, layout_version))
    _ops_a_second("iter_ops", len(ops), lambda: list(iter_ops(few, layout_version)))
    _ops_a_second("encode_op", len(ops), lambda: [encode_op(op, layout_version) for op in ops])
    _ops_a_second("op_to_json", len(ops), lambda: [op_to_json(op) for op in ops])


def _segment(size: int) -> bytes:
    """The bodies of one segment again and again, as consecutive transactions."""
    layout_version, bodies = _bodies()
    frames: list[bytes] = []
    while size > 0:
        opcode, body = bodies[len(frames) % len(bodies)]
        frames.append(encode_frame(opcode, len(frames) + 1, body))
        size -= len(frames[-1])
    return segment_bytes(layout_version, frames)


def _bodies() -> tuple[int, list[tuple[int, bytes]]]:
    data = segment(NAMES[1]) if FOLDER.is_dir() else segment_bytes(-63, [encode_op(MKDIR, -63)])
    bodies, offset = [], HEADER_BYTES
    while offset < len(data):
        opcode, _, end = frame_at(data, offset)
        bodies.append((opcode, data[offset + 13 : end - 4]))
        offset = end
    return decode_header(data), bodies


def _bytes_a_second(name: str, size: int, work: Callable[[], object]) -> None:
    print(f"{name}: {size / _seconds(work) / 1e6:.0f} MB/s", flush=True)


def _ops_a_second(name: str, count: int, work: Callable[[], object]) -> None:
    print(f"{name}: {count / _seconds(work):.0f} ops a second", flush=True)


def _seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(RUNS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best
