"""Retry cache: keeps the replies of recent mutating calls, so that retries are idempotent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from ..wire.rpc import Caller

REMEMBERED_MAX = 1024
"""Calls whose replies are kept, for all clients together. Such replies have some dozens of bytes."""

Reply = Callable[[bytes], None]


class Retries:
    """Replies by client and call id."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[bytes, int], bytes | list[Reply]] = OrderedDict()

    def is_answered(self, caller: Caller, reply: Reply) -> bool:
        """Whether the call is a retry. If so, `reply` is called now, or when the first call is answered."""
        if caller.retry_count <= 0:
            return False
        found = self._answers.get((caller.client_id, caller.call_id))
        if found is None:
            return False
        if isinstance(found, bytes):
            reply(found)
        else:
            found.append(reply)
        return True

    def remembering(self, caller: Caller, reply: Reply) -> Reply:
        """Wraps `reply` for a call that starts now, so that retries are answered as well."""
        key = (caller.client_id, caller.call_id)
        waiting: list[Reply] = [reply]
        self._answers.pop(key, None)
        self._answers[key] = waiting
        if len(self._answers) > REMEMBERED_MAX:
            self._answers.popitem(last=False)

        def answer(frame: bytes) -> None:
            if self._answers.get(key) is waiting:
                self._answers[key] = frame
            for one in waiting:
                one(frame)

        return answer
