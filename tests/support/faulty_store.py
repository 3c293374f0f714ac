"""A metadata store in memory, of which a test says which calls fail, and whether what they asked for is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from metadata.memory_store import MemoryData, MemoryStore
from metadata.store import Lease

CHANGES = frozenset({"create", "replace", "delete"})
ALWAYS = 10**9


@dataclass
class _Fault:
    error: BaseException
    calls: Collection[str]
    keys: str
    done: bool
    good: int
    bad: int

    def meets(self, call: str, key: str) -> bool:
        """Counts the calls that it is for."""
        if call not in self.calls or not key.startswith(self.keys) or not self.bad:
            return False
        if self.good:
            self.good -= 1
            return False
        self.bad -= 1
        return True


class FaultyStore(MemoryStore):
    """Good until it is told to fail. `calls` and `failures` count what was asked, and what failed."""

    def __init__(self, data: MemoryData | None = None) -> None:
        super().__init__(data)
        self.calls: Counter[str] = Counter()
        self.failures = 0
        self._faults: list[_Fault] = []

    def fail(
        self,
        error: BaseException,
        *,
        calls: Collection[str] = CHANGES,
        keys: str = "",
        good: int = 0,
        bad: int = ALWAYS,
        done: bool = False,
    ) -> None:
        """Of these calls for keys that begin so, `good` go well and then `bad` fail; `done`: the answer alone is lost.

        Faults that were told earlier come first.
        """
        self._faults.append(_Fault(error, calls, keys, done, good, bad))

    def heal(self) -> None:
        self._faults.clear()

    @property
    def is_failing(self) -> bool:
        """Whether any call is to fail yet."""
        return any(fault.bad for fault in self._faults)

    async def _call(self, name: str, first: str | Lease, *args: Any, **options: Any) -> Any:
        self.calls[name] += 1
        key = first if isinstance(first, str) else ""
        fault = next((one for one in self._faults if one.meets(name, key)), None)
        if fault is None or fault.done:
            answer = await getattr(super(), name)(first, *args, **options)
        if fault is None:
            return answer
        self.failures += 1
        raise fault.error


def _asking(name: str) -> Any:
    async def call(self: FaultyStore, *args: Any, **options: Any) -> Any:
        return await self._call(name, *args, **options)

    return call


for _name in (*CHANGES, "get", "list_page", "keep_lease", "revoke_lease"):
    setattr(FaultyStore, _name, _asking(_name))
