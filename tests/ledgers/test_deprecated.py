"""Keywords by their former names."""

from __future__ import annotations

import pytest

from ledgers.deprecated import renamed


@renamed(start="first_entry")
def read(first_entry: int = 0, *, timeout: float = 1) -> tuple[int, float]:
    return first_entry, timeout


def test_a_keyword_by_its_former_name_still_works_and_the_warning_names_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match="read: the argument start is called first_entry now") as told:
        assert read(start=7, timeout=2) == (7, 2)  # type: ignore[call-arg]
    assert told[0].filename == __file__, "it names the caller's line"
    assert read(7) == read(first_entry=7) == (7, 1), "without a warning, which would fail this test"


def test_an_argument_by_both_names_is_refused() -> None:
    with pytest.raises(TypeError, match="start is called first_entry now, and was given by both names"):
        read(first_entry=1, start=7)  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="start"), pytest.raises(TypeError, match="first_entry"):
        read(1, start=7)  # type: ignore[call-arg]
