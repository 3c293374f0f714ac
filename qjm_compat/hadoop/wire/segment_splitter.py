"""Splits a segment file from Hadoop into batches while receiving it: header, op frames, and possibly padding."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from ...batch import Batch
from ...edits import EditLogError
from ...edits.op_frames import HEADER_BYTES, OP_BYTES_MAX, TERMINATOR, decode_header, follow, frame_at
from ...errors import SegmentUnreadable

_TXID_END = 2**63 - 1
_LENGTH_BYTES_END = 5
_AROUND_LENGTH_BYTES = 5
"""The bytes that an op's length field does not include: the opcode and the checksum."""


class SegmentCutter:
    """Splits a segment file into complete, verified ops. Buffers at most one partial op."""

    def __init__(self, start_txid: int, where: str) -> None:
        self._where = where
        self._next_txid = start_txid
        self._rest = b""
        self._is_over = False
        self.layout_version: int | None = None
        self.writer_epoch = 0
        """The epoch of the file's writer; 0 if it is unknown."""

    def feed(self, data: bytes) -> Batch | None:
        """Returns the ops that are now complete. Raises SegmentUnreadable if they are damaged or have gaps."""
        self._rest += data
        try:
            if self.layout_version is None:
                if len(self._rest) < HEADER_BYTES:
                    return None
                self.layout_version = decode_header(self._rest)
                self._rest = self._rest[HEADER_BYTES:]
            batch = None if self._is_over else self._cut()
        except EditLogError as error:
            raise self._damaged(str(error)) from error
        if self._is_over:
            self._check_padding()
        return batch

    def end(self) -> None:
        """Ends the input. Raises SegmentUnreadable if the file ends in the middle of the header or of an op."""
        if self.layout_version is None:
            raise self._damaged("the file ends inside its header")
        if self._rest:
            raise self._damaged("the file ends inside an op")

    def _cut(self) -> Batch | None:
        first, offset = self._next_txid, 0
        while True:
            offset, self._next_txid = follow(self._rest, offset, self._next_txid, _TXID_END)
            if not self._is_whole(offset):
                break
            _, txid, end = frame_at(self._rest, offset)
            if txid != self._next_txid:
                raise self._damaged(f"found txid {txid}")
            offset, self._next_txid = end, txid + 1
        records, self._rest = self._rest[:offset], self._rest[offset:]
        self._is_over = self._rest[:1] == bytes([TERMINATOR])
        count = self._next_txid - first
        return Batch(first, count, records, None, self.writer_epoch) if count else None

    def _is_whole(self, offset: int) -> bool:
        """Returns whether all bytes of the op at `offset` have arrived. Also returns True if the op's length is
        invalid."""
        left = len(self._rest) - offset
        if left < _LENGTH_BYTES_END or self._rest[offset] == TERMINATOR:
            return False
        claimed = int.from_bytes(self._rest[offset + 1 : offset + _LENGTH_BYTES_END], "big")
        return claimed > OP_BYTES_MAX or left >= claimed + _AROUND_LENGTH_BYTES

    def _check_padding(self) -> None:
        if self._rest.strip(b"\x00\xff"):
            raise self._damaged("there is data after the file's terminator")
        self._rest = b""

    def _damaged(self, what: str) -> SegmentUnreadable:
        return SegmentUnreadable(f"{self._where}, where txid {self._next_txid} was expected: {what}")


async def batches_of(pieces: AsyncIterator[bytes], cutter: SegmentCutter) -> AsyncGenerator[Batch, None]:
    """Yields the batches of a file received in pieces."""
    async for piece in pieces:
        batch = cutter.feed(piece)
        if batch is not None:
            yield batch
    cutter.end()
