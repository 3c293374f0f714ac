"""Lays out a ledger's fragments as a grid: a row for each bookie, a column for each fragment, a cell for each copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GLYPHS = {
    "open": "◌",
    "whole": "●",
    "away": "◐",
    "misplaced": "◇",
    "draining": "◇",
    "lacking": "✕",
    "lost": "✕",
}
"""A glyph for each condition, so that conditions are not distinguished by colour alone."""

MEANINGS = {
    "open": "being written",
    "whole": "whole",
    "away": "its bookie is absent and may come back",
    "misplaced": "in the wrong fault domain, to be moved",
    "draining": "its bookie is drained, to be moved",
    "lacking": "entries are missing, to be copied",
    "lost": "lost, to be copied from others",
}

MISSING = frozenset({"lacking", "lost"})
"""Conditions that are shown in red."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A copy, or an empty cell if there is none (`condition` is then empty)."""

    condition: str = ""
    glyph: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Stripes:
    """The grid. `rows`: for each bookie, its name and a cell for each fragment. `used`: conditions for the legend."""

    fragments: tuple[dict[str, Any], ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    used: tuple[str, ...]


def drawn(ledger: dict[str, Any]) -> Stripes:
    """Returns the grid of a ledger in the form in which the API returns it."""
    fragments = ledger["fragments"]
    names = sorted({copy["bookie_id"] for fragment in fragments for copy in fragment["copies"]})
    by_place = {
        (copy["bookie_id"], n): copy for n, fragment in enumerate(fragments) for copy in fragment["copies"]
    }
    rows = tuple(
        (name, tuple(_cell(by_place.get((name, n)), ledger) for n in range(len(fragments)))) for name in names
    )
    found = {copy["condition"] for copy in by_place.values()}
    return Stripes(tuple(fragments), rows, tuple(one for one in GLYPHS if one in found))


def _cell(copy: dict[str, Any] | None, ledger: dict[str, Any]) -> Cell:
    if copy is None:
        return Cell()
    condition = copy["condition"]
    size, quorum = ledger["ensemble_size"], ledger["write_quorum"]
    share = "every entry" if quorum == size else f"{quorum} of {size} entries"
    lacks = copy["lacks"]
    more = f", lacks entries {lacks[0]} to {'the end' if lacks[1] is None else lacks[1]}" if lacks else ""
    return Cell(condition, GLYPHS[condition], f"{MEANINGS[condition]}; stores {share}{more}")
