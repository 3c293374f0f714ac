"""Answers of the latest calls that change something: one that is made again is answered alike, and happens once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from ..wire.rpc import Caller

REMEMBERED_MAX = 1024
"""Calls whose answers are kept, of all clients together; such answers have some dozens of bytes."""

Reply = Callable[[bytes], None]


class Retries:
    """By client and call id."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[bytes, int], bytes | list[Reply]] = OrderedDict()

    def is_answered(self, caller: Caller, reply: Reply) -> bool:
        """Whether the call was made before: then `reply` is called now, or when the first one is answered."""
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
        """A `reply` for a call that begins now, which tells those who ask again as well."""
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
