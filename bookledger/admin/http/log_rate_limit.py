"""Rate-limits the log lines about bad HTTP requests."""

from __future__ import annotations

import logging
import time

from aiohttp.http_exceptions import HttpProcessingError

from metadata.rate_limit import LogRateLimit

TOLD_SECONDS = 10.0
"""Seconds between two lines of a kind; the next line counts the suppressed ones."""

log = logging.getLogger(__name__)


class _Seldom(logging.Filter):
    """Unknown clients send invalid requests; each gets one line without a traceback. Our own faults keep theirs."""

    def __init__(self) -> None:
        super().__init__()
        self._ours, self._theirs = LogRateLimit(TOLD_SECONDS), LogRateLimit(TOLD_SECONDS)

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        is_ours = error is not None and not isinstance(error, HttpProcessingError)
        left_out = (self._ours if is_ours else self._theirs).untold(time.monotonic())
        if left_out is None:
            return False
        self._settle(
            record, error, f" ({left_out} more were suppressed)" if left_out else "", is_ours=is_ours
        )
        return True

    @staticmethod
    def _settle(record: logging.LogRecord, error: BaseException | None, more: str, *, is_ours: bool) -> None:
        if is_ours or error is None:
            record.msg = f"{record.getMessage()}{more}"
        else:
            # Its message contains the received data, perhaps a password; its class name does not.
            record.msg = f"invalid HTTP request{more}: {type(error).__name__}"
            record.levelno, record.levelname, record.exc_info = logging.INFO, "INFO", None
        record.args = ()


log.addFilter(_Seldom())
