"""Amounts as people write them on the command line: `7d`, `10GiB`."""

from __future__ import annotations

import re
from typing import Any

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_BYTES = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A time span such as `90s`, `12h` or `7d`, in seconds; a number alone is seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = _NUMBER.fullmatch(str(value))
        if found is None or found[2] not in {"", *_SECONDS}:
            self.fail(f"{value!r} is not a duration such as 90s, 30m, 12h or 7d.", param, ctx)
        return float(found[1]) * _SECONDS[found[2] or "s"]


class Size(click.ParamType):  # type: ignore[type-arg]
    """A size such as `512MiB` or `10GiB`, in bytes; a number alone is bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = _NUMBER.fullmatch(str(value))
        if found is None or found[2] not in _BYTES:
            self.fail(f"{value!r} is not a size such as 500MiB, 10GiB or 1TiB.", param, ctx)
        return round(float(found[1]) * _BYTES[found[2]])
