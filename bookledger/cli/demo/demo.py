"""`bookledger demo`: stores a file while a bookie and two writers are killed, and verifies that nothing is lost.

All processes are real, and the signals are SIGKILL and SIGSTOP. The writer reports the confirmed entries with their
SHA-256 before it is killed; everything is then read back and compared with this report and the file.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from pathlib import Path

import click

from metadata import opened_store
from metadata.records.cluster import cluster_id
from metadata.sqlite.sqlite_uri import uri_of

from ..messages.help import command
from ..messages.interruption import advise_when_stopped, bookies_are_gone
from ..messages.sizes import counts_bytes, format_bytes
from ..options import FilePath, json_option, naming_a_store
from ..output import Say, narrator, print_json, print_table
from ..processes import bookie_processes, in_plain_text
from ..temporary_directories import scratch_directory
from ..terminal import say
from .steps import Demo, DemoResult

RECORDS_MIN = 10
"""Minimum number of records: with fewer, there might be none before, between or after the two kills."""


def default_file() -> Path:
    """Returns a real file that exists on every machine with this program: the larger of the Python library and the gRPC
    library."""
    library = importlib.import_module("grpc._cython.cygrpc").__file__
    candidates = (os.path.realpath(sys.executable), str(library))
    return Path(max(candidates, key=os.path.getsize))


@command()
@click.argument("file", type=FilePath(exists=True, dir_okay=False, readable=True), default=default_file)
@click.option(
    "--metadata",
    "metadata_uri",
    metavar="URI",
    callback=naming_a_store,
    help="Metadata store to use  [default: an embedded store for the demo only]",
)
@click.option(
    "--bookies",
    default=4,
    type=click.IntRange(4, 32),
    show_default=True,
    help="Number of bookies to start; one of them is killed.",
)
@click.option(
    "--record-bytes",
    default=4096,
    type=click.IntRange(1, 1024 * 1024),
    show_default=True,
    help="Bytes of FILE per entry.",
)
@json_option
@click.pass_context
def demo(
    context: click.Context,
    file: Path,
    metadata_uri: str | None,
    bookies: int,
    record_bytes: int,
    as_json: bool,
) -> None:
    """Store FILE (or a large file of the installation) while a bookie and the writer are killed, and verify that
    no data is lost.

    Examples:
        bookledger demo
        bookledger demo --bookies 5 photo.raw
    """
    if file.stat().st_size < RECORDS_MIN * record_bytes:
        raise ValueError(
            f"{file} is too small for the demo: give a file of at least "
            f"{format_bytes(RECORDS_MIN * record_bytes)}, or a smaller --record-bytes"
        )
    say = narrator(quiet=as_json)
    with (
        advise_when_stopped(lambda: bookies_are_gone(_kept_in(metadata_uri))),
        scratch_directory("demo", None, say) as directory,
    ):
        uri = metadata_uri or uri_of(directory / "metadata.db")
        in_plain_text()
        asyncio.run(_check(uri))
        findings = _run(file, uri, directory, bookies, record_bytes, say)
    report(findings, as_json)
    if findings.wrong:
        context.exit(1)


def _prefix() -> str:
    """Returns a prefix for this run's bookie names, because other programs may use the same store."""
    return f"demo-{os.getpid()}-bookie"


def _kept_in(metadata_uri: str | None) -> str:
    return f"{metadata_uri} keeps its ledgers and the names {_prefix()}-…" if metadata_uri else ""


async def _check(metadata_uri: str) -> None:
    """Raises MetadataError for an unusable store, before any process is started on it."""
    async with opened_store(metadata_uri, create=True) as store:
        await cluster_id(store)


def _run(file: Path, uri: str, directory: Path, bookies: int, record_bytes: int, say: Say) -> DemoResult:
    say(
        f"{file} ({format_bytes(file.stat().st_size)}) in records of {format_bytes(record_bytes)}; metadata in {uri}"
    )
    with bookie_processes(bookies, directory, uri, prefix=_prefix()) as running:
        names = ", ".join(bookie.bookie_id for bookie in running)
        say(f"started {bookies} bookies, each a process: {names}")
        demo = Demo(file, uri, record_bytes, running, say)
        demo.run()
    return demo.findings


_ROWS = (
    ("entries", "entries"),
    ("bytes", "bytes"),
    ("confirmed before the writer was killed", "confirmed_before_the_kill"),
    ("append MB/s", "mb_per_s"),
    ("append latency p50, ms", "p50_ms"),
    ("append latency p99, ms", "p99_ms"),
    ("fragments of the first ledger", "fragments"),
    ("time to recover, s", "recover_seconds"),
    ("read MB/s", "read_mb_per_s"),
    ("stale writer", "stale_writer"),
    ("SHA-256 of the file", "sha256_of_the_file"),
    ("SHA-256 read back", "sha256_read_back"),
)


def report(findings: DemoResult, as_json: bool) -> None:
    verdict = "nothing lost, nothing changed" if not findings.wrong else "; ".join(findings.wrong)
    measured = findings.measured
    if as_json:
        print_json({**measured, "ok": not findings.wrong, "verdict": verdict})
        return
    rows = [[name, _shown(key, measured.get(key))] for name, key in _ROWS]
    print_table(["", "measured"], rows)
    say(f"verdict: {'OK' if not findings.wrong else 'FAILED'}, {verdict}")


def _shown(key: str, value: object) -> str:
    if not isinstance(value, int):
        return str(value)
    return format_bytes(value) if counts_bytes(key) else f"{value:,}"
