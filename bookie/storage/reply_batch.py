"""Batches answer callbacks, so that simultaneous answers are sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..wire.messages import Status

Callback = Callable[[], None]


class ReplyBatch:
    """Batch of answers. Use `with answers:` around code that answers many requests. Belongs to the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._are_together = False
        self._callbacks: list[Callback] = []

    def call_soon(self, callback: Callback) -> None:
        """Calls `callback` at the end of the `with` block, or of this loop iteration if there is no such block."""
        if self._are_together:
            self._callbacks.append(callback)
        else:
            self._loop.call_soon(callback)

    def __enter__(self) -> None:
        self._are_together = True

    def __exit__(self, *_: object) -> None:
        self._are_together = False
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception as error:
                # As in the event loop, an error in a callback affects neither the other callbacks nor the block.
                about = {"message": "the answer could not be sent to a client", "exception": error}
                self._loop.call_exception_handler(about)


def set_once(answered: asyncio.Future[tuple[Status, str]], status: Status, detail: str) -> None:
    """Sets the answer, unless it is already set or the waiter was cancelled."""
    if not answered.done():
        answered.set_result((status, detail))
