"""Scans a segment file by its frames only, and continues after damage in the middle.

As in Hadoop, the ops end at the end of the file, or at a terminator followed only by padding. If no op can be read at
an offset, every later offset is tried until one can be read, so damage in the middle does not hide the ops after it.
(Hadoop intends to do this, but misses the first op after the damage, and all later ops if a length is damaged: for such
a file it may report a last transaction that is too low.) Unlike Hadoop, this scan bounds the effort, and reports damage
and gaps between transactions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import BrokenFrame, BrokenHeader
from .op_frames import (
    HEADER_BYTES,
    INVALID_TXID,
    OP_BYTES_MAX,
    OP_BYTES_MIN,
    TERMINATOR,
    Buffer,
    decode_header,
    follow,
    frame_at,
)

DAMAGE_MAX = 1024
"""Maximum number of damaged places that are listed; all are counted."""

RESYNC_EFFORT_BYTES = 64 * 1024 * 1024
RESYNC_EFFORT_FACTOR = 16
"""After damage, the search for the next op reads at most RESYNC_EFFORT_BYTES of possible ops, plus this many times the
file's size.

Damaged bytes seldom look like an op; only a file crafted to be slow reaches this limit.
"""

_NO_END = 1 << 64
_PADDING = bytes([0, TERMINATOR])
_PIECE_BYTES = 64 * 1024

# An op code followed by a plausible length; the length's first byte and its minimum value are checked.
_MAYBE_AN_OP = re.compile(rb"[^\xff](?=[\x00-\x03])(?!\x00\x00\x00[\x00-\x0b])", re.DOTALL)
assert OP_BYTES_MAX < 0x04000000
assert OP_BYTES_MIN - 5 == 0x0C


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of damage: bytes offset … end - 1 of the file are neither an op nor padding."""

    offset: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """The complete, undamaged ops of a segment file.

    If there are none, `first_txid` and `last_txid` are INVALID_TXID. `last_txid` is the highest txid found.
    `valid_bytes` is the end of the last op: in an undamaged file, the header and ops are before that offset, and only
    padding is after it. Damage that begins there is a torn tail. A file with a corrupt header (missing, or never
    written) is not read.
    """

    layout_version: int | None
    valid_bytes: int
    first_txid: int
    last_txid: int
    ops: int
    is_header_corrupt: bool
    is_contiguous: bool
    """Whether each op's txid is one more than that of the op before it."""
    damage: tuple[Damage, ...] = ()
    damaged_places: int = 0
    """The total number of damaged places; `damage` lists the first DAMAGE_MAX of them."""

    @property
    def is_empty(self) -> bool:
        return self.ops == 0


def scan_segment(data: Buffer, *, txid_max: int | None = None) -> SegmentScan:
    """Scans a complete segment file. With `txid_max`, includes that op and stops there, or stops at the first op
    with a higher txid, which is not included.

    Bytes after the op at which it stops are not read, because a writer may be appending there. Damage is not an error
    here but part of the result. Raises BrokenHeader for a layout in which ops had no length yet.
    """
    view = memoryview(data)
    try:
        layout = decode_header(view)
    except BrokenHeader as error:
        if _is_of_old_layout(view):
            raise
        damage = Damage(0, len(view), str(error))
        return SegmentScan(None, 0, INVALID_TXID, INVALID_TXID, 0, True, True, (damage,), 1)
    return _Scanner(view, _NO_END if txid_max is None else txid_max + 1).scan(layout)


def _is_of_old_layout(view: memoryview) -> bool:
    """Returns whether the file is an edit log in an unsupported old layout, as opposed to not being an edit log at
    all."""
    return len(view) >= HEADER_BYTES and -56 < int.from_bytes(view[:4], "big", signed=True) < -1


class _Scanner:
    def __init__(self, view: memoryview, txid_end: int) -> None:
        self.view = view
        self.txid_end = txid_end
        self.offset = HEADER_BYTES
        self.valid_bytes = HEADER_BYTES
        self.first_txid = self.last_txid = INVALID_TXID
        self.expected: int | None = None
        self.ops = 0
        self.is_contiguous = True
        self.damage: list[Damage] = []
        self.damaged_places = 0
        self.effort = RESYNC_EFFORT_BYTES + RESYNC_EFFORT_FACTOR * len(view)
        self._padding_from: int | None = None

    def scan(self, layout: int) -> SegmentScan:
        while self.offset < len(self.view) and self._is_wanted() and not self._at_padding() and self._step():
            pass
        return SegmentScan(
            layout,
            self.valid_bytes,
            self.first_txid,
            self.last_txid,
            self.ops,
            False,
            self.is_contiguous,
            tuple(self.damage),
            self.damaged_places,
        )

    def _is_wanted(self) -> bool:
        return not self.ops or self.last_txid + 1 < self.txid_end

    def _step(self) -> bool:
        """Processes the op at the current offset and the consecutive ops after it, or the damage at that offset.
        Returns False at the end."""
        try:
            _, txid, end = frame_at(self.view, self.offset)
        except BrokenFrame as error:
            self._note_damage(error.reason, self._next_op())
            return True
        if txid >= self.txid_end:
            return False
        self._take(txid, txid, end)
        offset, expected = follow(self.view, end, txid + 1, self.txid_end)
        if expected > txid + 1:
            self._take(txid + 1, expected - 1, offset)
        return True

    def _take(self, first: int, last: int, end: int) -> None:
        self.is_contiguous = self.is_contiguous and self.expected in (None, first)
        self.first_txid = self.first_txid if self.ops else first
        self.last_txid = max(self.last_txid, last) if self.ops else last
        self.ops += last - first + 1
        self.expected = last + 1
        self.offset = self.valid_bytes = end

    def _note_damage(self, reason: str, end: int) -> None:
        self.damaged_places += 1
        if len(self.damage) < DAMAGE_MAX:
            self.damage.append(Damage(self.offset, end, reason))
        self.offset = end

    def _next_op(self) -> int:
        """Returns the offset of the next op or, failing that, of the padding or the end of the file."""
        for found in _MAYBE_AN_OP.finditer(self.view, self.offset + 1):
            offset = found.start()
            size = 5 + int.from_bytes(self.view[offset + 1 : offset + 5], "big")
            if size > min(OP_BYTES_MAX, len(self.view) - offset):
                continue
            self.effort -= size
            if self.effort < 0:
                return len(self.view)
            if self._is_op(offset):
                return offset
        return max(self.offset + 1, self._padding())

    def _is_op(self, offset: int) -> bool:
        try:
            frame_at(self.view, offset)
        except BrokenFrame:
            return False
        return True

    def _at_padding(self) -> bool:
        return self.view[self.offset] == TERMINATOR and self.offset >= self._padding()

    def _padding(self) -> int:
        """Returns the offset of the first terminator that is followed only by padding, or the end of the file if there
        is none."""
        if self._padding_from is None:
            self._padding_from = _padding_of(self.view)
        return self._padding_from


def _padding_of(view: memoryview) -> int:
    end = begin = len(view)
    while begin:
        piece = bytes(view[max(0, end - _PIECE_BYTES) : end])
        begin = end - len(piece) + len(piece.rstrip(_PADDING))
        if begin > end - len(piece):
            break
        end = begin
    for offset in range(begin, len(view), _PIECE_BYTES):
        found = bytes(view[offset : offset + _PIECE_BYTES]).find(TERMINATOR)
        if found >= 0:
            return offset + found
    return len(view)
