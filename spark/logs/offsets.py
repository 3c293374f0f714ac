"""Offsets of streams of logs, as stored in Spark's checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..stream.offsets import ITS_OWN_CHECKPOINT, BadOffset


@dataclass(frozen=True, slots=True)
class Delivered:
    """The records delivered from one log: all before `stop`. The batch that ends with this offset begins at `start`.

    `identity` is the log's, in hexadecimal. If another log gets its name later, that log has another identity.
    """

    identity: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class LogsOffset:
    """The records delivered from each log, by name; empty before the first batch."""

    chosen: str
    logs: Mapping[str, Delivered] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        logs = {name: [one.identity, one.start, one.stop] for name, one in sorted(self.logs.items())}
        return {"chosen": self.chosen, "logs": logs}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], chosen: str) -> LogsOffset:
        """Raises BadOffset if the offset is malformed, or if it belongs to a stream of other logs."""
        try:
            logs = {
                str(name): Delivered(str(one[0]), int(one[1]), int(one[2]))
                for name, one in value["logs"].items()
            }
            found = cls(value["chosen"], logs)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise BadOffset(
                f"{value!r} is not an offset of a stream of logs: {ITS_OWN_CHECKPOINT}"
            ) from error
        if found.chosen != chosen:
            raise BadOffset(
                f"the checkpoint is of a stream of {found.chosen}, and this one is of {chosen}: {ITS_OWN_CHECKPOINT}"
            )
        return found


def shares(there: Sequence[int], records_max: int) -> list[int]:
    """How many records of each log go into a batch of at most `records_max`. A log with few records gives all of them.

    Logs with more records get equal shares, so no log waits for another.
    """
    given = [0] * len(there)
    by_size = sorted(range(len(there)), key=lambda n: there[n])
    for number, log in enumerate(by_size):
        given[log] = min(there[log], -(-records_max // (len(there) - number)))
        records_max -= given[log]
    return given
