"""Fragments drawn over bookies: every copy stands in the row of its bookie, and what is missing is told in words."""

from __future__ import annotations

from bookie.upkeep.healing.ledger_counts import Condition
from bookledger.console.stripes import GLYPHS, MEANINGS, MISSING, drawn


def copy(bookie: str, condition: str = "whole", lacks: list[int] | None = None) -> dict[str, object]:
    return {"position": 0, "bookie_id": bookie, "condition": condition, "lacks": lacks}


LEDGER = {
    "ensemble_size": 3,
    "write_quorum": 2,
    "fragments": [
        {"first_entry": 0, "copies": [copy("b1"), copy("b2", "lost"), copy("b3")]},
        {"first_entry": 10, "copies": [copy("b1"), copy("b4", "lacking", [12, 14]), copy("b3")]},
    ],
}


def test_every_copy_stands_in_the_row_of_its_bookie_and_the_column_of_its_fragment() -> None:
    found = drawn(LEDGER)
    conditions = {name: [cell.condition for cell in cells] for name, cells in found.rows}
    assert conditions == {
        "b1": ["whole", "whole"], "b2": ["lost", ""], "b3": ["whole", "whole"], "b4": ["", "lacking"],
    }  # fmt: skip
    assert found.used == ("whole", "lacking", "lost")


def test_what_a_copy_lacks_is_told_in_words() -> None:
    cells = dict(drawn(LEDGER).rows)["b4"]
    assert (
        cells[1].description
        == "entries are missing, to be copied; stores 2 of 3 entries, lacks entries 12 to 14"
    )


def test_every_condition_has_a_sign_and_a_meaning() -> None:
    every = {one.value for one in Condition}
    assert GLYPHS.keys() == MEANINGS.keys() == every
    assert every > MISSING
