"""What `make test` leaves to `make hunt WHAT=long`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def first_then_long(
    values: Iterable[object] | Mapping[str, object], first: int = 1, *, in_rows: bool = False
) -> list[object]:
    """Parameters of a test, of which `make test` takes the first so many. A mapping's keys are their ids.

    `in_rows`: each is a tuple of several parameters.
    """
    named: list[tuple[str | None, Any]] = (
        list(values.items()) if isinstance(values, Mapping) else [(None, value) for value in values]
    )
    return [
        pytest.param(
            *(value if in_rows else (value,)), id=name, marks=() if index < first else pytest.mark.long
        )
        for index, (name, value) in enumerate(named)
    ]
