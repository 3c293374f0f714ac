"""Splits edits into slices of frames, and decodes their ops only if necessary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qjm_compat.edits import EditLogError, EditOp, frame_at, iter_ops
from qjm_compat.edits.op_frames import Buffer

SLICE_BYTES = 1024 * 1024
"""Bytes of edits that are converted to Python objects and columns at a time. Small edits take about 25 times as much
memory.

A task holds one batch (at most BATCH_BYTES_MAX; twice that while its parts are joined) and the objects of one slice. An
op larger than a slice gets a slice of its own.
"""


@dataclass(frozen=True, slots=True)
class Frames:
    """Consecutive complete frames, with their op codes and txids. `starts` contains the offset of each frame."""

    records: memoryview
    opcodes: list[int]
    txids: list[int]
    starts: list[int]

    def decoded(self, layout_version: int) -> list[EditOp]:
        """Returns the ops. Raises EditLogError, which names the transaction and the op code that cannot be decoded."""
        ops: list[EditOp] = []
        try:
            for op in iter_ops(self.records, layout_version):
                ops.append(op)  # on an error, the length of `ops` is the index of the bad frame
        except EditLogError as error:
            raise self.undecodable(len(ops), str(error)) from error
        return ops

    def undecodable(self, index: int, reason: str) -> EditLogError:
        """Returns the error for a frame that cannot be decoded, with advice."""
        return EditLogError(
            f"txid {self.txids[index]}, of op code {self.opcodes[index]}, cannot be decoded ({reason}): skip it with "
            "from_txid and to_txid, or use a schema with only txid, segment, layout_version and body"
        )


def slices(records: Buffer, slice_bytes: int = SLICE_BYTES) -> Iterator[Frames]:
    """Yields all frames in order, in slices of at most `slice_bytes`, without copying them.

    Raises BrokenFrame if a frame is damaged or incomplete.
    """
    view = memoryview(records)
    begin = 0
    while begin < len(view):
        found = _slice(view, begin, slice_bytes)
        begin += len(found.records)
        yield found


def _slice(view: memoryview, begin: int, slice_bytes: int) -> Frames:
    opcodes: list[int] = []
    txids: list[int] = []
    starts: list[int] = []
    at = begin
    while at < len(view):
        opcode, txid, end = frame_at(view, at)
        if starts and end - begin > slice_bytes:
            break
        opcodes.append(opcode)
        txids.append(txid)
        starts.append(at - begin)
        at = end
    return Frames(view[begin:at], opcodes, txids, starts)
