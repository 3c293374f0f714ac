"""Records as lines of JSON: what `log read --json` prints is what `log append --json-lines` takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookledger.cli.log.json_records import json_line, new_record_in
from ledgers import NewRecord, Record
from tests.ledgers.logs.test_record_batch import NEW_RECORDS, TIMES, of


@given(NEW_RECORDS, TIMES, st.integers(0, 2**63 - 1))
def test_what_is_printed_is_appended_as_it_was(new: NewRecord, time: int, position: int) -> None:
    line = json_line(of(new, position, time))
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    told = json.loads(line)
    assert (told["position"], told["time_us"]) == (position, time)
    assert new_record_in(told) == new


def test_a_line_has_no_more_than_the_record_has() -> None:
    assert (
        json_line(Record(3, b"p", 5, None, {}, None))
        == b'{"position":3,"time_us":5,"payload_base64":"cA=="}\n'
    )
    assert json_line(Record(3, b"p", 5, b"k", {"n": b"v"}, 7)) == (
        b'{"position":3,"time_us":5,"event_time_us":7,"key_base64":"aw==","headers_base64":{"n":"dg=="},'
        b'"payload_base64":"cA=="}\n'
    )


def test_a_person_may_write_text() -> None:
    told = {"payload": "é", "key": "k", "headers": {"n": "v"}, "event_time_us": 7}
    assert new_record_in(told) == NewRecord("é".encode(), b"k", {"n": b"v"}, 7)
    assert new_record_in({"payload": ""}) == NewRecord(b"")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({}, 'an object with either "payload_base64" or, as text, "payload"'),
        ({"payload": "p", "key": "k", "key_base64": "aw=="}, "both key and key_base64 are given"),
        ({"payload": "p", "key": 5}, "key must be text; use key_base64 for bytes"),
        ({"payload": "p", "key_base64": "?"}, "key_base64 is not base64"),
        ({"payload": "p", "key_base64": 5}, "key_base64 is not base64"),
        ({"payload": "p", "headers": ["n"]}, "headers must be an object with a value for each header"),
        ({"payload": "p", "headers": {"n": 5}}, "headers must be text; use headers_base64 for bytes"),
        ({"payload": "p", "headers_base64": {"n": "?"}}, "headers_base64 is not base64"),
        ({"payload": "p", "event_time_us": "noon"}, "a whole number of microseconds, not str"),
        ({"payload": "p", "event_time_us": 2**63}, "64 bits"),
        ({"payload": "p", "producer": "p"}, "needs both a producer and a sequence"),
        ({"payload": "p", "producer": "p", "sequence": "1"}, "a sequence must be an int, not str"),
        ({"payload": "p", "headers": {str(n): "" for n in range(65)}}, "at most 64 headers"),
    ],
)
def test_a_line_that_is_no_record_is_refused_in_words(told: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        new_record_in(told)
