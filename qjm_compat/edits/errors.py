"""What can be wrong with the bytes of an edit log.

EditLogError
    BrokenHeader    the file does not begin as an edit log that can be read here
    BrokenFrame     no whole op stands at this offset; the bytes before it are good
    BrokenOp        the frame is whole, and its body is not what its op code and layout ask for
    UnknownOp       no such op code at this layout
    UnknownLayout   a layout nobody here knows the fields of
"""

from __future__ import annotations

from metadata.portable import PortableError


class EditLogError(PortableError):
    """The bytes are no edit log, or not one that can be read here. Reading them again will not help."""


class BrokenHeader(EditLogError):
    """No header, or that of a layout whose ops have no length (before -56)."""


class BrokenFrame(EditLogError):
    """What stands at `offset` is not the op that was expected there; `reason` says what was expected."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"at offset {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class BrokenOp(EditLogError):
    """The fields of an op do not fit its bytes, or cannot be written at this layout."""


class UnknownOp(EditLogError):
    """An op code that this layout does not have."""


class UnknownLayout(EditLogError):
    """A layout outside of those whose fields are known. Its frames can still be checked and scanned."""
