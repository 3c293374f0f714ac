"""Runs `bookledger …` with bookies that count and time nothing: `python -m tests.measure.uncounted …`."""

from __future__ import annotations

from typing import Any

from bookie.storage.counting.metrics import BookieMetrics


def _nothing(*_: Any) -> None:
    """Counts nothing."""


if __name__ == "__main__":
    for name in ("stored", "synced", "read", "answered"):
        setattr(BookieMetrics, name, _nothing)

    from bookledger.cli.main import main

    main()
