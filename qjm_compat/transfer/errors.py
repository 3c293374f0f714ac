"""The error of a refused import, export or check."""

from __future__ import annotations

from ..errors import JournalError


class TransferRefused(JournalError):
    """Going on would skip, change or overwrite edits. What was done before is whole; says which edits and where."""
