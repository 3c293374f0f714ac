"""`bookledger`: the root command, lazy command groups, and error handling.

Exit codes are in `messages.exit_codes`. A failure is reported as one clear line on stderr. Each group is imported on
first use, so that `--help` is quick.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from bookie.log_context import LIFE
from metadata.settings.environment import variable_of

from ..admin.log_formats import BookieIdFilter, JsonFormatter, LogFormat, are_json
from . import standard_files
from .config.lazy_group import LazyGroup, Place
from .config.origin import origin_of
from .config.settings import Settings, read, settings_now
from .messages.exit_codes import BY_SIGNAL, ExitCode
from .messages.help import Headings
from .terminal import PlainFormatter, say

_GROUPS: dict[str, Place] = {
    "standalone": ("bookledger.cli.standalone", "standalone", "Run bookies and an embedded metadata store."),
    "bookie": ("bookledger.cli.bookie.group", "bookie", "Run, format and inspect a bookie."),
    "ledger": ("bookledger.cli.ledger.group", "ledger", "Create, write, read and repair ledgers."),
    "log": ("bookledger.cli.log.group", "log", "Write and read logs: records at consecutive positions."),
    "cluster": (
        "bookledger.cli.cluster.group",
        "cluster",
        "Show the cluster's health, and remove bookies.",
    ),
    "console": ("bookledger.cli.cluster.console", "console", "Show a cluster in a browser."),
    "metadata": (
        "bookledger.cli.metadata.group",
        "metadata",
        "Back up and restore the metadata.",
    ),
    "autorecovery": (
        "bookledger.cli.autorecovery",
        "autorecovery",
        "Run the auditor of a cluster without a bookie.",
    ),
    "offloader": (
        "bookledger.cli.cluster.offloader",
        "offloader",
        "Copy closed ledgers to an object store as they age.",
    ),
    "journal": (
        "bookledger.cli.journal.group",
        "journal",
        "Store, move and check the edit logs of HDFS NameNodes.",
    ),
    "replay": (
        "bookledger.cli.spark.replay",
        "replay",
        "Copy ledgers or a journal's edits to Parquet on Spark.",
    ),
    "sim": ("bookledger.cli.spark.sim", "sim", "Run the simulator's campaign as Spark tasks."),
    "config": (
        "bookledger.cli.config.group",
        "config",
        "Show settings, and check a settings file.",
    ),
    "certs": (
        "bookledger.cli.certs.group",
        "certs",
        "Issue certificates for the processes of a cluster.",
    ),
    "completion": (
        "bookledger.cli.config.completion",
        "completion",
        "Print a shell completion script.",
    ),
    "demo": (
        "bookledger.cli.demo.demo",
        "demo",
        "Kill a bookie and a writer, and verify that no data is lost.",
    ),
    "bench": ("bookledger.cli.bench.command", "bench", "Benchmark appends against a plain-socket baseline."),
}


HEADINGS: Headings = {
    "Data": ("log", "ledger", "journal", "replay"),
    "Servers": ("standalone", "bookie", "autorecovery", "offloader", "console"),
    "Cluster": ("cluster", "metadata"),
    "This machine": ("config", "certs", "completion"),
    "Demo and benchmarks": ("demo", "bench", "sim"),
}

METADATA_HINT = (
    "It is the cluster's metadata store: etcd://HOST:2379/PREFIX, or for one machine sqlite:///PATH/metadata.db. "
    "BOOKLEDGER_METADATA, or `metadata` in a settings file, sets it for all commands. "
    "`bookledger standalone` needs none."
)
DATA_HINT = (
    "It is the directory in which a bookie stores its entries; "
    "`bookledger bookie format --data DIR --id NAME --metadata URI` creates one."
)


class RootGroup(LazyGroup):
    """All commands, each with its defaults from the settings file."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is not None and isinstance(ctx.obj, Settings) and ctx.default_map is not None:
            ctx.default_map[cmd_name] = ctx.obj.defaults_of(cmd_name, command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Exits with NOBODY_READS when the reader of standard output is gone; click would report a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            if not standard_files.has_no_reader():
                raise
            standard_files.discard_output()
            raise SystemExit(ExitCode.NOBODY_READS) from None


def _take_settings(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Reads the settings file before all other options, because it overrides their defaults."""
    commands = {name: partial(cli.imported, name) for name in _GROUPS}
    context.obj = Settings() if path is None else read(path, commands)
    context.default_map = {}
    context.obj.into_environment()


@click.group(
    cls=RootGroup,
    places=_GROUPS,
    headings=HEADINGS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="BOOKLEDGER_CONFIG",
    is_eager=True,
    expose_value=False,
    callback=_take_settings,
    help="Settings file (TOML); `bookledger config check FILE` checks it.",
)
@click.option(
    "-v",
    "--verbose",
    count=True,
    envvar=variable_of("verbose"),
    help="Log more on stderr; -vv logs everything.",
)
@click.option(
    "--audit-log",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="BOOKLEDGER_AUDIT_LOG",
    help="Write audit events to this file, one JSON object per line.",
)
@click.option(
    "--log-format",
    type=click.Choice([one.value for one in LogFormat]),
    envvar="BOOKLEDGER_LOG_FORMAT",
    default=LogFormat.PLAIN.value,
    show_default=True,
    help="Format of log lines on stderr; json prints one object per line, and logs as much as -v.",
)
@click.version_option(package_name="bookledger", prog_name="bookledger")
def cli(verbose: int, audit_log: Path | None, log_format: str) -> None:
    """A replicated, fenced, durable ledger store.

    Every command has its own --help. Every option can also be set in a settings file (--config) or in an environment
    variable, such as BOOKLEDGER_BOOKIE_RUN_PORT for `bookie run --port`. `bookledger config show` lists them all.

    Examples:
        bookledger standalone
        seq 1000 | bookledger ledger append --metadata sqlite:///srv/try/metadata.db
        bookledger ledger --help
    """
    is_json = LogFormat(log_format) is LogFormat.JSON
    level = [logging.WARNING, logging.INFO, logging.DEBUG][min(max(verbose, int(is_json)), 2)]
    plain = PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if is_json else plain)
    handler.addFilter(BookieIdFilter())
    logging.basicConfig(level=level, handlers=[handler])
    if not sys.stderr.isatty():  # on a terminal, the user sees the same on standard output
        LIFE.setLevel(logging.INFO)
    if audit_log is not None:
        from .audit_log import LogsConfig, keep

        try:
            keep(audit_log, settings_now().made("logs", LogsConfig))
        except OSError as error:
            raise ValueError(f"--audit-log {audit_log} cannot be written: {error.strerror}") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command and ends the process with its exit code."""
    # Keep gRPC's log lines out of our one-line error message.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    _clean_up_when_stopped()
    try:
        exit_code = _run(arguments)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        exit_code = ExitCode.INTERRUPTED
    except BaseExceptionGroup as group:
        exit_code = _report(_first(group))
    except Exception as error:
        exit_code = _report(error)
    sys.exit(exit_code)


def _clean_up_when_stopped() -> None:
    """Makes SIGTERM and SIGHUP exit with clean-up; daemons install their own handlers."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # a signal that the parent ignored stays ignored
            signal.signal(number, lambda received, _: sys.exit(BY_SIGNAL + received))


def _run(arguments: Sequence[str] | None) -> int:
    standard_files.secure()
    try:
        # Commands return None; `--help` and the like return their exit code.
        return cli.main(args=arguments, prog_name="bookledger", standalone_mode=False) or 0
    except click.ClickException as error:
        if are_json():
            said_in_one = " ".join([error.format_message(), *_hints(error)])
            logging.getLogger("bookledger").error("%s", said_in_one)
            return ExitCode.WRONG_USAGE
        said = io.StringIO()
        error.show(said)
        for line in [*said.getvalue().splitlines(), *_hints(error)]:
            say(line, err=True)
        return ExitCode.WRONG_USAGE


def _hints(error: click.ClickException) -> list[str]:
    """Returns the source of an invalid value that was not typed on the command line, or advice for new users."""
    if isinstance(error, click.BadParameter) and error.param is not None and error.ctx is not None:
        origin = origin_of(error.ctx, error.param)
        if origin.is_set_elsewhere:
            return [f"It is set by {origin.where}."]
    if not isinstance(error, click.MissingParameter) or error.param is None:
        return []
    hint = {"--metadata": METADATA_HINT, "--data": DATA_HINT}.get(error.param.opts[0])
    return [hint] if hint else []


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _report(error: BaseException) -> int:
    """Prints one line for expected errors; re-raises all others, which are bugs, with their traceback."""
    from bookie.errors import BookieError
    from ledgers.errors import LedgerError
    from metadata.errors import MetadataError, StoreUnavailable
    from qjm_compat.edits.errors import EditLogError
    from qjm_compat.errors import JournalError

    from .messages.journal_errors import describe_journal_error
    from .messages.os_errors import describe_os_error

    if isinstance(error, OSError):
        cannot_write = isinstance(error, BrokenPipeError) and standard_files.has_no_reader()
        standard_files.discard_output()
        if cannot_write:
            return ExitCode.NOBODY_READS
    clear = BookieError | LedgerError | MetadataError | JournalError | EditLogError | ValueError | OSError
    if not isinstance(error, clear):
        raise error
    logging.getLogger(__name__).debug("where it happened", exc_info=error)
    if isinstance(error, JournalError):
        message = describe_journal_error(error)
    elif isinstance(error, OSError):
        message = describe_os_error(error)
    else:
        message = "; ".join(str(error).splitlines())
    if isinstance(error, StoreUnavailable) and error.what_to_do:
        message = f"{message}. {error.what_to_do}"
    if are_json():
        logging.getLogger("bookledger").error("%s", message)
    else:
        say(f"bookledger: {message}", err=True)
    return ExitCode.FAILED
