"""What a log line is about stands in fields, for programs that gather lines: ledger, bookie, client and peer."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("bookie", "bookledger", "ledgers", "metadata", "qjm_compat", "spark")
LEVELS = ("debug", "info", "warning", "error", "critical", "log", "exception")

FIELDS = {
    "ledger %": "ledger",
    "%s holds %d bytes and makes no progress": "peer",
    "connection from %s": "peer",
    "%s did not complete the TLS handshake": "peer",
    "closed a connection": "peer",
    "connection closed": "peer",
}
"""Words of a line that is about one, and the field it has then."""


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """Every call that logs, with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_log(node.func)
    ]


def is_log(method: ast.Attribute) -> bool:
    whose = method.value
    return isinstance(whose, ast.Name) and whose.id in ("log", "LIFE") and method.attr in LEVELS


def words_of(call: ast.Call) -> str:
    """The text of its arguments."""
    return " ".join(
        node.value
        for argument in call.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def fields_of(call: ast.Call) -> set[str]:
    """What is given as `extra`, by name, or all of it where that is made elsewhere."""
    for keyword in call.keywords:
        if keyword.arg == "extra":
            if not isinstance(keyword.value, ast.Dict):
                return set(FIELDS.values())
            return {str(key.value) for key in keyword.value.keys if isinstance(key, ast.Constant)}
    return set()


@pytest.mark.parametrize(("words", "field"), FIELDS.items())
def test_a_line_about_a_ledger_or_a_peer_has_it_as_a_field(words: str, field: str) -> None:
    found = [(place, call) for place, call in calls() if words in words_of(call)]
    assert found, "there are such lines"
    assert [place for place, call in found if field not in fields_of(call)] == []


def test_no_field_takes_the_name_of_what_a_line_has_anyway() -> None:
    """`logging` refuses them when the line is written, which may be seldom."""
    known = {"ledger", "bookie", "client", "peer"}
    assert {name for _, call in calls() for name in fields_of(call)} <= known
