"""The options of `format("log")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ..planning.options import (
    COMMON,
    StreamOptions,
    checked,
    chosen_columns,
    needed,
    number,
    truth,
)
from ..planning.selection import BadSelection
from .columns import DEFAULT_COLUMNS, TYPES, TimeRange

EARLIEST, LATEST = "earliest", "latest"

OF_BATCHES = ("endingPosition", "endingTime")
OF_STREAMS = ("maxRecordsPerTrigger", "failOnDataLoss")
OF_LOGS = (*COMMON, "log", "set", "columns", "startingPosition", "startingTime", *OF_BATCHES, *OF_STREAMS)

EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class LogOptions(StreamOptions):
    """Options of `format("log")`.

    `metadata`: the cluster's URI. `log`: the name of a log; or `set`: the name of a set of logs, all of which are read.
    `startingPosition`: the first position to read, `earliest` (the default) or, in streams, `latest`; or
    `startingTime`: start at the first record appended at or after this time. `endingPosition`, `endingTime`: the
    position or time before which a batch ends; by default a batch reads all records that are confirmed when it is
    planned. Positions belong to one log, and times have a time zone, as in 2026-11-29T12:00:00Z. `columns`: the columns
    to read; a schema given to `.schema(...)` does the same. `maxRecordsPerTrigger`: the rate limit, in streams only.
    `failOnDataLoss`: `false` skips, with a warning, records that were deleted before they were read; in streams only.
    `password_file`, `key_file`, `partition_bytes`, `partitions_min`: as for `format("ledger")`.
    """

    types = TYPES

    log: str | None
    log_set: str | None
    start_position: int | None
    starts_at_end: bool
    stop_position: int | None
    times: TimeRange
    records_max: int | None
    """Maximum number of records in one batch of a stream; None for no limit."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LogOptions:
        """Parses the options. Raises BadSelection, which names the invalid option."""
        given = checked(options, OF_LOGS, prefix=None)
        for one, other in (
            ("log", "set"),
            ("startingPosition", "startingTime"),
            ("endingPosition", "endingTime"),
        ):
            if one.lower() in given and other.lower() in given:
                raise BadSelection(f"choose {one} or {other}, not both")
        log_set = needed(given, "set") if "set" in given else None
        default = DEFAULT_COLUMNS if log_set is None else ("log", *DEFAULT_COLUMNS)
        start = given.get("startingposition", EARLIEST)
        found = cls(
            **cls.common(given),
            log=needed(given, "log") if log_set is None else None,
            log_set=log_set,
            columns=chosen_columns(given.get("columns"), TYPES, default),
            start_position=None if start in (EARLIEST, LATEST) else _position(given, "startingPosition"),
            starts_at_end=start == LATEST,
            stop_position=_position(given, "endingPosition") if "endingposition" in given else None,
            times=TimeRange(_time_us(given, "startingTime"), _time_us(given, "endingTime")),
            records_max=number(given, "maxrecordspertrigger", 1) if "maxrecordspertrigger" in given else None,
            fails_on_data_loss=truth(given, "failOnDataLoss") if "failondataloss" in given else None,
        )
        if log_set is not None and (found.start_position, found.stop_position) != (None, None):
            raise BadSelection(
                "each log of a set has its own positions: select by time, or read only one of the logs"
            )
        for first, behind in ((found.start_position, found.stop_position), found.times):
            if first is not None and behind is not None and behind < first:
                raise BadSelection("the selection ends before it begins: nothing would be read")
        return found

    def for_batch(self) -> LogOptions:
        """Returns these options. Raises BadSelection for options that apply only to streams."""
        for name, value in zip(OF_STREAMS, (self.records_max, self.fails_on_data_loss), strict=True):
            if value is not None:
                raise BadSelection(f"the option {name} only applies to readStream: leave it out")
        if self.starts_at_end:
            raise BadSelection(
                f"startingPosition={LATEST} only applies to readStream: a batch would read nothing"
            )
        return self

    def for_stream(self) -> LogOptions:
        """Returns these options. Raises BadSelection for options that apply only to batch reads."""
        for name, value in zip(OF_BATCHES, (self.stop_position, self.times.stop_us), strict=True):
            if value is not None:
                raise BadSelection(
                    f"the option {name} does not apply to streams, which do not end: leave it out"
                )
        return self

    @property
    def chosen(self) -> str:
        """Describes the selected log or logs, by name."""
        return f"log {self.log}" if self.log_set is None else f"set {self.log_set}"


def _position(given: Mapping[str, str], name: str) -> int:
    return number({name: given[name.lower()]}, name, 0, least=0)


def _time_us(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise BadSelection(
            f"the option {name} must be a time with a time zone, such as 2026-11-29T12:00:00Z, not {text!r}"
        )
    return max(0, (at - EPOCH) // _MICROSECOND)
