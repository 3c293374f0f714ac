"""What keeps a directory and a journal apart."""

from __future__ import annotations

from ..errors import JournalError


class TransferRefused(JournalError):
    """Going on would skip, change or overwrite edits. What was done before is whole; says which edits and where."""
