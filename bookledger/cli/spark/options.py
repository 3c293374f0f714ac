"""Command-line options shared by the commands on Spark."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_CORES = r"(?:[1-9]\d*|\*)(?:\s*,\s*[1-9]\d*)?"
_MASTER = re.compile(rf"local(?:\[{_CORES}\])?|local-cluster\[.+\]|yarn|spark://[^/]+|k8s://.+", re.DOTALL)
MASTERS = "local[*], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"


def master_given(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """Validates an option that names a master. Raises BadParameter."""
    if not value.strip():
        raise click.BadParameter(f"name a Spark master: {MASTERS}")
    if not _MASTER.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not a Spark master; a master is {MASTERS}")
    return value


def settings(texts: tuple[str, ...]) -> dict[str, str]:
    """Returns Spark's settings from `--conf`. Raises UsageError for settings that Spark would ignore."""
    found = pairs(texts, "--conf")
    for name in found:
        if not name.startswith("spark."):
            raise click.UsageError(
                f"--conf {name}: Spark's settings begin with spark., Hadoop's with spark.hadoop."
            )
    return found


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Parses repeated `KEY=VALUE`. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise click.UsageError(f"{option} {text!r} is not KEY=VALUE")
        found[name] = value
    return found


@contextmanager
def tasks_bar() -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar of tasks, on a terminal only; yields the function that updates it."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(
        *Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("tasks", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
