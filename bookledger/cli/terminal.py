"""What goes to a terminal: text that others chose has nothing in it that the terminal would obey."""

from __future__ import annotations

import logging
import sys

import click


def shown(text: str) -> str:
    """The text with control characters and escape codes written out."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def shown_bytes(data: bytes) -> str:
    """Bytes that may be text, the same way."""
    return shown(data.decode(errors="backslashreplace"))


def say(text: object = "", *, err: bool = False) -> None:
    """Prints a line for a person to read. A line break in the text is shown as one: it would forge a line."""
    click.echo(shown(str(text)), err=err)


def confirm(question: str, *, otherwise: str = "--yes") -> None:
    """Returns after a yes. Raises ValueError after a no, UsageError where nobody is there to answer."""
    click.echo(f"{shown(question)} [y/N]: ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        click.echo(err=True)
        raise click.UsageError(f"nobody answers on standard input, and nothing was done: give {otherwise}")
    if answer.strip().lower() not in ("y", "yes"):
        raise ValueError("the answer was no, and nothing was done")


class PlainFormatter(logging.Formatter):
    """Of a message only the text, behind the bookie that it is of; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 — logging's name
        whose = getattr(record, "bookie", "")
        record.message = shown(f"{whose}: {record.message}" if whose else record.message)
        return super().formatMessage(record)
