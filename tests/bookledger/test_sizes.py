"""Byte counts: people read them human and exact, programs as plain numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookledger.cli import output
from bookledger.cli.messages.sizes import UNITS, counts_bytes, format_bytes

CLI = Path(output.__file__).parent


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB (1,024 bytes)"),
        (1_572_864, "1.5 MiB (1,572,864 bytes)"),
        (1024**2 - 1, "1.0 MiB (1,048,575 bytes)"),
        (10 * 1024**3, "10.0 GiB (10,737,418,240 bytes)"),
        (2**63, "8.0 EiB (9,223,372,036,854,775,808 bytes)"),
        (-2048, "-2.0 KiB (-2,048 bytes)"),
    ],
)
def test_a_count_is_told_human_and_exact(count: int, told: str) -> None:
    assert format_bytes(count) == told


@given(st.integers(0, 2**64))
def test_what_is_exact_is_the_count_and_what_is_human_is_near_it(count: int) -> None:
    told = re.fullmatch(r"(?:([\d.]+) (\w+) \()?([\d,]+) bytes?\)?", format_bytes(count))
    assert told is not None
    human, unit, exact = told.groups()
    assert int(exact.replace(",", "")) == count
    if human is None:
        assert count < 1024
    else:
        assert 1 <= float(human) < 1024 or unit == UNITS[-1]
        assert abs(float(human) * 1024 ** (UNITS.index(unit) + 1) - count) <= count * 0.051


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("bytes", True),
        ("length_bytes", True),
        ("disk_bytes_free", True),
        ("last.bytes_moved", True),
        ("bytes_per_second", False),
        ("bytes.count", False),
        ("entries", False),
    ],
)
def test_a_field_says_by_its_name_whether_it_counts_bytes(name: str, is_one: bool) -> None:
    assert counts_bytes(name) is is_one


def test_people_are_told_in_records_tables_and_lists_and_programs_get_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = {"ledger_id": 5000, "length_bytes": 2893, "is_open": True, "parts": [{"bytes": 2048}]}
    output.print_record(record, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "ledger id     5000",
        "length bytes  2.8 KiB (2,893 bytes)",
        "is open       yes",
        "parts         bytes=2.0 KiB (2,048 bytes)",
    ]
    output.print_records([record], as_json=False, none="")
    assert "2.8 KiB (2,893 bytes)" in capsys.readouterr().out
    output.print_records([record], as_json=True, none="")
    assert json.loads(capsys.readouterr().out) == record


def test_no_command_tells_a_count_of_bytes_in_its_own_way() -> None:
    own = [
        f"{path.relative_to(CLI)}: {line.strip()}"
        for path in CLI.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"\{[^{}]*\} bytes", line) and path.name != "sizes.py"
    ]
    assert own == []
