"""Offsets of streams of logs, as stored in Spark's checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..stream.offsets import ITS_OWN_CHECKPOINT, BadOffset


@dataclass(frozen=True, slots=True)
class Delivered:
    """What was delivered of one log: all before `stop`; from `start` on in the batch that ends with this offset.

    `identity`: of the log, in hexadecimal. Another log that gets its name later is another one.
    """

    identity: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LogsOffset:
    """What was delivered of each log, by name; of no log before the first batch."""

    chosen: str
    logs: Mapping[str, Delivered] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        logs = {name: [one.identity, one.start, one.stop] for name, one in sorted(self.logs.items())}
        return {"chosen": self.chosen, "logs": logs}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], chosen: str) -> LogsOffset:
        """Raises BadOffset for a malformed offset, and for one of a stream of other logs."""
        try:
            logs = {
                str(name): Delivered(str(one[0]), int(one[1]), int(one[2]))
                for name, one in value["logs"].items()
            }
            found = cls(value["chosen"], logs)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BadOffset(f"{value!r} is no offset of a stream of logs: {ITS_OWN_CHECKPOINT}") from error
        if found.chosen != chosen:
            raise BadOffset(
                f"the checkpoint is of a stream of {found.chosen}, and this one is of {chosen}: {ITS_OWN_CHECKPOINT}"
            )
        return found


def shares(there: Sequence[int], records_max: int) -> list[int]:
    """How many records of each log a batch takes that has so many at most: those that have few give all.

    A log that has more gets as many as the others, so none waits for another.
    """
    given = [0] * len(there)
    by_size = sorted(range(len(there)), key=lambda n: there[n])
    for number, log in enumerate(by_size):
        given[log] = min(there[log], -(-records_max // (len(there) - number)))
        records_max -= given[log]
    return given
