"""Safe terminal output: escapes control sequences in text from other sources."""

from __future__ import annotations

import logging
import sys

import click


def shown(text: str) -> str:
    """Escapes control characters in the text."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def shown_bytes(data: bytes) -> str:
    """Escapes bytes that may be text."""
    return shown(data.decode(errors="backslashreplace"))


def say(text: object = "", *, err: bool = False) -> None:
    """Prints a line for people. Escapes line breaks in the text, which could forge additional lines."""
    click.echo(shown(str(text)), err=err)


def confirm(question: str, *, otherwise: str = "--yes") -> None:
    """Asks a yes/no question. Raises ValueError if the answer is no, or UsageError if standard input has ended."""
    click.echo(f"{shown(question)} [y/N]: ", err=True, nl=False)
    answer = sys.stdin.readline()
    if not answer:
        click.echo(err=True)
        raise click.UsageError(
            f"there is no answer on standard input, and nothing was done: give {otherwise}"
        )
    if answer.strip().lower() not in ("y", "yes"):
        raise ValueError("the answer was no, and nothing was done")


class PlainFormatter(logging.Formatter):
    """Formats messages as escaped text, prefixed with the name of their bookie; tracebacks keep their line breaks."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 — logging's name
        whose = getattr(record, "bookie", "")
        record.message = shown(f"{whose}: {record.message}" if whose else record.message)
        return super().formatMessage(record)
