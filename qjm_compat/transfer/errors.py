"""The error of a refused import, export or check."""

from __future__ import annotations

from ..errors import JournalError


class TransferRefused(JournalError):
    """Continuing would skip, change or overwrite edits. The work already done is complete; the message names the edits
    and their place."""
