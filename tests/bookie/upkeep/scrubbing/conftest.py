"""Segments of which a small log has several."""

from __future__ import annotations

import pytest

from tests.bookie.logs import use_small_sizes


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_sizes(monkeypatch, segment=2048, group=512, step=512)
