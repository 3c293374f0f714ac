"""Options for what is settled when a log is made."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from metadata.records.logs.log_record import ROLL_BYTES, ROLL_RECORDS, ROLL_SECONDS

from ..options import DIGESTS, Finite, shape_options

F = TypeVar("F", bound=Callable[..., Any])

HEADING = {
    "Its segments": (
        "--ensemble",
        "--write-quorum",
        "--ack-quorum",
        "--digest",
        "--roll-bytes",
        "--roll-records",
        "--roll-seconds",
    )
}


def new_log_options(function: F) -> F:
    """The command gets them by the names of `create_log`'s arguments."""

    @functools.wraps(function)
    def with_digest(*, digest: str, **others: Any) -> Any:
        return function(digest=DIGESTS[digest], **others)

    command: Any = with_digest
    for option in reversed([*shape_options("a segment", "record"), *_roll_options()]):
        command = option(command)
    return command  # type: ignore[no-any-return]


def _roll_options() -> list[Callable[[Any], Any]]:
    return [
        click.option(
            "--roll-bytes",
            type=click.IntRange(1, 2**63 - 1),
            default=ROLL_BYTES,
            show_default=True,
            help="A segment of so many bytes is ended, and the next one begun.",
        ),
        click.option(
            "--roll-records",
            type=click.IntRange(1, 2**63 - 1),
            default=ROLL_RECORDS,
            show_default=True,
            help="A segment of so many records, likewise.",
        ),
        click.option(
            "--roll-seconds",
            type=Finite(0.001),
            default=ROLL_SECONDS,
            show_default=True,
            help="A segment as old as that, likewise.",
        ),
    ]
