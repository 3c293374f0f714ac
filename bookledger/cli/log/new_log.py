"""Options of a new log."""

from __future__ import annotations

import click

from ledgers import DigestType
from metadata.records.logs.log_record import ROLL_BYTES, ROLL_RECORDS, ROLL_SECONDS

from ..options import DIGESTS, Finite, made_of, shape_options

HEADING = {
    "Segments": (
        "--ensemble",
        "--write-quorum",
        "--ack-quorum",
        "--digest",
        "--roll-bytes",
        "--roll-records",
        "--roll-seconds",
    )
}


def _digest(digest: str) -> DigestType:
    return DIGESTS[digest]


new_log_options = made_of(
    "digest",
    _digest,
    shape_options("a segment", "record"),
    click.option(
        "--roll-bytes",
        type=click.IntRange(1, 2**63 - 1),
        default=ROLL_BYTES,
        show_default=True,
        help="Begin a new segment after this many bytes.",
    ),
    click.option(
        "--roll-records",
        type=click.IntRange(1, 2**63 - 1),
        default=ROLL_RECORDS,
        show_default=True,
        help="Begin a new segment after this many records.",
    ),
    click.option(
        "--roll-seconds",
        type=Finite(0.001),
        default=ROLL_SECONDS,
        show_default=True,
        help="Begin a new segment after this many seconds.",
    ),
)
"""Adds the options; the command gets their values as arguments named like those of `create_log`."""
