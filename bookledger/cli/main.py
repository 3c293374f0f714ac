"""`bookledger`: the command and its groups.

Exit codes: 0 done; 1 the operation failed, with one clear line on stderr; 2 wrong usage; 128 and the
number of the signal that ended it. Each group is imported when it is used, so that `--help` is quick.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from . import standard_files
from .terminal import PlainFormatter, say

_GROUPS = {
    "standalone": ("bookledger.cli.standalone", "standalone", "Run bookies and an embedded metadata store."),
    "bookie": ("bookledger.cli.bookie.group", "bookie", "Run, format and inspect a bookie."),
    "ledger": ("bookledger.cli.ledger.group", "ledger", "Create, write, read and repair ledgers."),
    "cluster": (
        "bookledger.cli.cluster.group",
        "cluster",
        "Show whether the whole is well, and give up bookies.",
    ),
    "metadata": (
        "bookledger.cli.metadata.group",
        "metadata",
        "Keep copies of the metadata, and bring one back.",
    ),
    "autorecovery": (
        "bookledger.cli.autorecovery",
        "autorecovery",
        "Be the auditor of a cluster, without a bookie.",
    ),
    "journal": (
        "bookledger.cli.journal.group",
        "journal",
        "Keep, move and check the edit logs of HDFS NameNodes.",
    ),
    "replay": (
        "bookledger.cli.spark.replay",
        "replay",
        "Copy ledgers or a journal's edits to Parquet, on Spark.",
    ),
    "sim": ("bookledger.cli.spark.sim", "sim", "Run the simulator's campaign as Spark tasks."),
    "certs": (
        "bookledger.cli.certs.group",
        "certs",
        "Make certificates for the processes of a cluster.",
    ),
    "demo": (
        "bookledger.cli.demo.demo",
        "demo",
        "Lose a bookie and a writer, and nothing else, before your eyes.",
    ),
    "bench": ("bookledger.cli.bench.command", "bench", "Measure appends beside a plain-socket baseline."),
}

INTERRUPTED = 128 + signal.SIGINT


class LazyGroup(click.Group):
    """Knows its commands by name and imports each when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_GROUPS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _GROUPS:
            return None
        module, attribute, _ = _GROUPS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, _, help_line) in _GROUPS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", count=True, help="Log more on stderr; twice for everything.")
@click.option(
    "--audit-log",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="BOOKLEDGER_AUDIT_LOG",
    help="File of this process for what somebody may have to answer for, a line of JSON each.",
)
@click.version_option(package_name="bookledger", prog_name="bookledger")
def cli(verbose: int, audit_log: Path | None) -> None:
    """A replicated, fenced, durable ledger store.

    Every command has a --help of its own.
    """
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)]
    handler = logging.StreamHandler()
    handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    if audit_log is not None:
        from .audit_log import keep

        keep(audit_log)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and ends the process with its exit code."""
    # gRPC's own log lines would stand beside our one line of error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    _clean_up_when_stopped()
    try:
        exit_code = _run(arguments)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        exit_code = INTERRUPTED
    except BaseExceptionGroup as group:
        exit_code = _report(_first(group))
    except Exception as error:
        exit_code = _report(error)
    sys.exit(exit_code)


def _clean_up_when_stopped() -> None:
    """A command that is told to stop cleans up behind itself; daemons take the signals over themselves."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # whoever started us may want it ignored
            signal.signal(number, lambda received, _: sys.exit(128 + received))


def _run(arguments: Sequence[str] | None) -> int:
    standard_files.secure()
    try:
        # What a command returns is nothing; `--help` and the like return their exit code.
        return cli.main(args=arguments, prog_name="bookledger", standalone_mode=False) or 0
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        for line in said.getvalue().splitlines():
            say(line, err=True)
        return 2


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _report(error: BaseException) -> int:
    """One line for what the world did; a traceback only for what we did."""
    from bookie.errors import BookieError
    from ledgers.errors import LedgerError
    from metadata.errors import MetadataError
    from qjm_compat.edits.errors import EditLogError
    from qjm_compat.errors import JournalError

    if isinstance(error, OSError):
        cannot_write = isinstance(error, BrokenPipeError) and standard_files.nobody_reads()
        standard_files.give_output_up()
        if cannot_write:
            return 1  # whoever read our output has seen enough
    clear = BookieError | LedgerError | MetadataError | JournalError | EditLogError | ValueError | OSError
    if not isinstance(error, clear):
        raise error
    logging.getLogger(__name__).debug("where it happened", exc_info=error)
    say(f"bookledger: {'; '.join(str(error).splitlines())}", err=True)
    return 1
