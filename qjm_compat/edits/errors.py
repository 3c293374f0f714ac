"""Errors for invalid bytes of an edit log.

EditLogError
    BrokenHeader    the file does not begin with a readable header
    BrokenFrame     no complete op begins at this offset; the bytes before it are good
    BrokenOp        the frame is complete, but its body does not match its op code and layout
    UnknownOp       this layout has no such op code
    UnknownLayout   the fields of this layout are not known to this module
"""

from __future__ import annotations

from metadata.picklable_errors import PicklableError


class EditLogError(PicklableError):
    """The bytes are not a readable edit log. Retrying does not help."""


class BrokenHeader(EditLogError):
    """There is no header, or it is of a layout whose ops have no length (older than -56)."""


class BrokenFrame(EditLogError):
    """The op expected at `offset` is missing; `reason` describes the mismatch."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"at offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class BrokenOp(EditLogError):
    """The fields of an op do not match its bytes, or cannot be encoded in this layout."""


class UnknownOp(EditLogError):
    """An op code that this layout does not have."""


class UnknownLayout(EditLogError):
    """A layout whose fields are unknown. Its frames can still be checked and scanned."""
