"""What may be set, and what may not, stands in docs/settings.md as the code has it; each setting is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookledger.cli.config.sections import SECTIONS
from metadata.settings.tunable import (
    Tunable,
    defaults_of,
    elsewhere_of,
    format_range,
    to_toml,
    tunables_of,
    unit_of,
)

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "settings.md"
PACKAGES = ("bookie", "metadata", "ledgers", "qjm_compat", "bookledger")


def tables() -> str:
    """All of it, as the document has it."""
    return "\n\n".join("\n".join(table(name)) for name in SECTIONS)


def table(name: str) -> Iterator[str]:
    kind = SECTIONS[name].kind()
    yield f"`[{name}]`: {SECTIONS[name].description}.\n"
    yield "| setting | default | range | what it is |"
    yield "|---|---|---|---|"
    for field, one in tunables_of(kind).items():
        value = default(one, to_toml(defaults_of(kind)[field]))
        yield f"| `{field}` | {value} | {bounds(field, one)} | {one.description} |"


def default(one: Tunable, value: object) -> str:
    if value is None:
        return "not set"
    if one.kind is bool:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else str(value)


def bounds(name: str, one: Tunable) -> str:
    unit = unit_of(name, one)
    if one.kind not in (int, float):
        return unit
    short = re.sub(r"\d+ \(([^)]+)\)", r"\1", format_range(name, one))
    return f"{short} {unit if short == format_range(name, one) else unit.removeprefix('bytes')}".replace(
        "  ", " "
    ).strip()


def test_every_setting_stands_in_the_document_as_the_code_has_it() -> None:
    document = DOCUMENT.read_text()
    for name in SECTIONS:
        assert "\n".join(table(name)) in document, f"it has to be:\n\n{tables()}"


def test_a_default_is_in_its_range_and_every_setting_says_what_it_is() -> None:
    for section in SECTIONS.values():
        kind = section.kind()
        for name, one in tunables_of(kind).items():
            value = defaults_of(kind)[name]
            assert one.description.endswith("."), name
            if one.kind in (int, float) and value is not None:
                assert one.least <= value <= one.most and one.least < one.most, name
            assert "|" not in one.description


def test_what_is_set_elsewhere_is_an_option_there() -> None:
    from bookledger.cli.main import cli

    run = cli.get_command(cli.make_context("x", ["--help"], resilient_parsing=True), "bookie").commands["run"]  # type: ignore[union-attr]
    options = {name.lstrip("-") for param in run.params for name in param.opts}
    for section in SECTIONS.values():
        for where in elsewhere_of(section.kind()).values():
            option, _, command = where.partition(" in ")
            assert command == "[bookie.run]" and option in options, where


@pytest.mark.parametrize("name", SECTIONS)
def test_every_setting_is_used_outside_of_its_class(name: str) -> None:
    kind = SECTIONS[name].kind()
    home = ROOT / (SECTIONS[name].module.replace(".", "/") + ".py")
    code = "\n".join(
        path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path != home
    )
    own = home.read_text()
    unused = [
        field
        for field in tunables_of(kind)
        if not re.search(rf"\.{field}\b", code) and not re.search(rf"(self|config)\.{field}\b", own)
    ]
    assert unused == []
