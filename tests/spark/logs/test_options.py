"""Options of `format("log")`: what is refused, and how."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from spark.logs.columns import DEFAULT_COLUMNS, TimeRange
from spark.logs.options import LogOptions
from spark.planning.selection import BadSelection

URI = {"metadata": "memory://options"}
ORDERS = URI | {"log": "orders"}


def test_a_log_is_read_from_its_oldest_record_to_its_end_in_all_columns() -> None:
    options = LogOptions.of(ORDERS).for_batch()
    assert (options.start_position, options.stop_position, options.times) == (None, None, TimeRange())
    assert options.columns == DEFAULT_COLUMNS
    assert LogOptions.of(URI | {"set": "sales"}).columns == ("log", *DEFAULT_COLUMNS)


def test_times_are_microseconds_of_any_time_zone() -> None:
    options = LogOptions.of(
        ORDERS | {"startingTime": "1970-01-01T01:00:00+01:00", "endingTime": "1970-01-01T00:00:01.000001Z"}
    )
    assert options.times == TimeRange(0, 1_000_001)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (URI, "the option log is required"),
        ({"log": "orders"}, "the option metadata is required"),
        (ORDERS | {"set": "sales"}, "choose log or set"),
        (ORDERS | {"ledgers": "7"}, "option 'ledgers' is not known"),
        (ORDERS | {"columns": "position,ledger_id"}, "there is no column 'ledger_id'"),
        (ORDERS | {"columns": "position,position"}, "name at least one column, and each only once"),
        (ORDERS | {"startingPosition": "-1"}, "startingPosition must be a number of at least 0"),
        (ORDERS | {"startingPosition": "first"}, "startingPosition must be a number of at least 0"),
        (
            ORDERS | {"startingPosition": "1", "startingTime": "2026-11-29T12:00Z"},
            "choose startingPosition or",
        ),
        (ORDERS | {"endingPosition": "1", "endingTime": "2026-11-29T12:00Z"}, "choose endingPosition or"),
        (ORDERS | {"startingPosition": "2", "endingPosition": "1"}, "ends before it begins"),
        (ORDERS | {"startingTime": "2026-11-29T12:00"}, "startingTime must be a time with a time zone"),
        (ORDERS | {"endingTime": "noon"}, "endingTime must be a time with a time zone"),
        (URI | {"set": "sales", "startingPosition": "5"}, "each log of a set has its own positions"),
        (URI | {"set": "sales", "endingPosition": "5"}, "each log of a set has its own positions"),
        (ORDERS | {"maxRecordsPerTrigger": "0"}, "maxrecordspertrigger must be a number of at least 1"),
        (ORDERS | {"failOnDataLoss": "maybe"}, "failOnDataLoss must be true or false"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadSelection, match=told):
        LogOptions.of(given)


@pytest.mark.parametrize("name", ["maxRecordsPerTrigger", "failOnDataLoss", "startingPosition"])
def test_a_batch_has_no_options_of_streams(name: str) -> None:
    value = {"failOnDataLoss": "true", "startingPosition": "latest"}.get(name, "7")
    options = LogOptions.of(ORDERS | {name: value})
    assert options.for_stream() == options
    with pytest.raises(BadSelection, match=f"{name}.* only applies to readStream"):
        options.for_batch()


@pytest.mark.parametrize(("name", "value"), [("endingPosition", "7"), ("endingTime", "2026-11-29T12:00:00Z")])
def test_a_stream_has_no_end(name: str, value: str) -> None:
    options = LogOptions.of(ORDERS | {name: value})
    assert options.for_batch() == options
    with pytest.raises(BadSelection, match=f"{name} does not apply to streams"):
        options.for_stream()


def test_a_schema_chooses_columns_of_their_types() -> None:
    options = LogOptions.of(ORDERS)
    assert options.columns_of(StructType().add("payload", "binary").add("time", "timestamp")) == (
        "payload",
        "time",
    )
    with pytest.raises(BadSelection, match="column position has type bigint, not string"):
        options.columns_of(StructType().add("position", "string"))
