"""Waits for a quorum of answers, with a timeout that excludes any time during which this process was suspended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from ledgers.protocol.quorum import Outcome

from .proposer_effects import Answers, Need, T

log = logging.getLogger(__name__)

WARN_AT = (0.3, 0.7)
"""Fractions of the time limit at which a wait is logged."""

PAUSE_SHARE_MIN = 0.3
"""If a wake-up is late by more than this fraction of the time limit, this process is assumed to have been suspended,
and the time limit is extended by the delay."""

STEP_SECONDS_MAX = 1.0


async def wait_for(
    what: str,
    calls: Sequence[asyncio.Future[T]],
    need: Need,
    seconds_max: float,
    *,
    is_polling: bool = False,
    every_answer: bool = False,
) -> Answers[T]:
    """Returns the answers once the need is met or can no longer be met, or time is up. Does not cancel the remaining
    calls.

    With `every_answer`, waits until all calls have finished or time is up, even if the outcome is already certain. Logs
    a long wait, unless `is_polling` is set, because a long wait is normal in polling.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    deadline = began + seconds_max
    warnings = [began + share * seconds_max for share in WARN_AT if not is_polling]
    while True:
        answers = collected(calls)
        now = loop.time()
        is_decided = answers.outcome(need, len(calls)) is not Outcome.PENDING
        if (is_decided and not (every_answer and _is_any_left(calls))) or now >= deadline:
            return answers
        if warnings and now >= warnings[0]:
            warnings.pop(0)
            log.warning("waited %.1f of %.1f s for a quorum: %s", now - began, seconds_max, what)
        step = min(deadline - now, STEP_SECONDS_MAX, *(w - now for w in warnings))
        pending = [call for call in calls if not call.done()]
        await asyncio.wait(pending, timeout=step, return_when=asyncio.FIRST_COMPLETED)
        late = loop.time() - now - step
        if late > PAUSE_SHARE_MIN * seconds_max:
            log.warning("this process was suspended for %.1f s; waiting that much longer: %s", late, what)
            deadline += late


def _is_any_left(calls: Sequence[asyncio.Future[T]]) -> bool:
    return not all(call.done() for call in calls)


def collected(calls: Sequence[asyncio.Future[T]]) -> Answers[T]:
    """Returns the answers that have arrived. A call that failed counts as an error, whatever the reason."""
    replies: dict[int, T] = {}
    errors: dict[int, Exception] = {}
    for number, call in enumerate(calls):
        if not call.done():
            continue
        error: Any = call.exception()
        if error is None:
            replies[number] = call.result()
        else:
            errors[number] = error
    return Answers(replies, errors)
