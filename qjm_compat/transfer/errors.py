"""The error raised when an import, export or check is refused."""

from __future__ import annotations

from ..errors import JournalError


class TransferRefused(JournalError):
    """Continuing would skip, change or overwrite edits. The work already done is complete; the message identifies the
    edits and their location."""
