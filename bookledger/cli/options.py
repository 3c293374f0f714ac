"""Command-line options and types that several commands share."""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from ledgers import DigestType, NewLedger
from metadata.secret_file import read_password

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[Any], Any]
"""The type of click's decorators: each adds an option or an argument to a command."""

DIGESTS = {digest_name.value.replace("_", "-"): digest_name for digest_name in DigestType}

NEW_LEDGER_OPTIONS = {
    "ensemble_size": "--ensemble",
    "write_quorum": "--write-quorum",
    "ack_quorum": "--ack-quorum",
    "digest": "--digest",
    "custom_metadata": "--custom",
    "strict": "--strict",
}
"""Properties that are fixed when a ledger is created."""


class Finite(click.FloatRange):
    """A number in a range, without `nan` and `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class FilePath(click.Path):
    """The path of a file or directory, as a Path. Refuses an empty path, such as one from an unset variable."""

    def __init__(
        self, *, exists: bool = False, file_okay: bool = True, dir_okay: bool = True, readable: bool = True
    ) -> None:
        super().__init__(
            exists=exists, file_okay=file_okay, dir_okay=dir_okay, readable=readable, path_type=Path
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


class Moment(click.ParamType):  # type: ignore[type-arg]
    """A time in ISO 8601; without a zone it is UTC."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2026-01-31T12:00:00Z.", param, ctx)
        return at if at.tzinfo else at.replace(tzinfo=UTC)


def all_of(*options: Option) -> Callable[[F], F]:
    """Combines these options, in this order."""

    def decorated(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorated


def made_of(into: str, make: Callable[..., Any], *options: Option) -> Callable[[F], F]:
    """Combines these options. The values of options that are parameters of `make` are passed to `make`, and the command
    gets the result as the argument `into`."""
    taken = inspect.signature(make).parameters

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def with_made(**given: Any) -> Any:
            parts = {name: given.pop(name) for name in taken if name in given}
            return function(**{into: make(**parts)}, **given)

        return all_of(*options)(cast("F", with_made))

    return decorated


def _metadata_option(*, required: bool) -> Callable[[F], F]:
    return click.option(
        "--metadata",
        "metadata_uri",
        metavar="URI",
        envvar="BOOKLEDGER_METADATA",
        callback=naming_a_store,
        required=required,
        help="etcd://HOST:PORT/PREFIX or sqlite:///PATH; also from BOOKLEDGER_METADATA.",
    )


def naming_a_store(context: click.Context, option: click.Parameter, uri: str | None) -> str | None:
    """A callback for options: refuses a URI that does not name a store. It runs before anything else is done,
    and does not contact the store."""
    from metadata.errors import BadMetadataUri
    from metadata.store_factory import check_uri

    try:
        if uri is not None:
            check_uri(uri)
    except BadMetadataUri as error:
        raise click.BadParameter(f"{error}.", context, option) from None
    return uri


metadata_option = _metadata_option(required=True)
optional_metadata_option = _metadata_option(required=False)


certificates_option = click.option(
    "--certs",
    "certificates",
    type=FilePath(file_okay=False, exists=True),
    envvar="BOOKLEDGER_CERTS",
    help="Directory with ca.pem, cert.pem and key.pem; accept TLS only. Also from BOOKLEDGER_CERTS.",
)
"""`certificates`: the directory of a bookie's certificates, or None for plain text."""


insecure_option = click.option(
    "--insecure",
    is_flag=True,
    help="Serve plain text on non-loopback addresses, without authentication.",
)


accept_unsafe_etcd_option = click.option(
    "--accept-unsafe-etcd",
    envvar="BOOKLEDGER_ACCEPT_UNSAFE_ETCD",
    is_flag=True,
    help="Accept an etcd version that may lose confirmed writes (before 3.4.22, and 3.5 before 3.5.6).",
)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


def free_space_option(default_mib: int) -> Callable[[F], F]:
    """Adds `free_space_min_mib`: a bookie with less free space is read-only."""
    return click.option(
        "--free-space-min",
        "free_space_min_mib",
        metavar="MIB",
        type=click.IntRange(0),
        default=default_mib,
        show_default=True,
        help="Free disk space below which a bookie is read-only; at most 5 % of its disk.",
    )


measuring_options = all_of(
    click.option(
        "--seconds", default=5.0, type=Finite(0.1, 3600), show_default=True, help="Seconds per workload."
    ),
    click.option(
        "--data",
        type=FilePath(exists=True, file_okay=False),
        help="Directory on the disk to measure  [default: the system's temporary directory]",
    ),
)
"""Adds options for the duration of a benchmark, and for the disk that it measures."""


def checked_by(
    check: Callable[[str], object],
) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Returns a callback that refuses a value for which `check` raises ValueError."""

    def checked(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        try:
            if value is not None:
                check(value)
        except ValueError as error:
            raise click.BadParameter(f"{error}.", context, parameter) from None
        return value

    return checked


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


ledger_argument = click.argument("ledger_id", metavar="LEDGER", type=int)


log_argument = click.argument("name", metavar="LOG")


raw_option = click.option("--raw", is_flag=True, help="Print payloads only, without separators.")


first_option = click.option(
    "--first", type=click.IntRange(0), default=0, show_default=True, help="First entry to print."
)


def _password_option(whose: str) -> Callable[[F], F]:
    return click.option(
        "--password-file",
        "password",
        type=FilePath(exists=True, dir_okay=False),
        callback=_password_in,
        help=f"File with the {whose}'s password, readable by its owner only (mode 600); a trailing newline "
        "is ignored.",
    )


def _password_in(_: click.Context, option: click.Parameter, path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        return read_password(path)
    except ValueError as error:
        raise click.BadParameter(str(error), param=option) from error


password_option = _password_option("ledger")
"""`password`: the bytes of the file without its trailing newline; b"" without a file."""

log_password_option = _password_option("log")
"""`password`: the password of all segments of a log."""


def shape_options(ledger: str, entry: str) -> Option:
    """Adds options for a ledger's ensemble, quorums and digest; their help uses the words `ledger` and `entry`."""
    names = NEW_LEDGER_OPTIONS
    return all_of(
        click.option(
            names["ensemble_size"],
            "ensemble_size",
            type=click.IntRange(1),
            default=3,
            show_default=True,
            help=f"Number of bookies of {ledger}.",
        ),
        click.option(
            names["write_quorum"],
            type=int,
            help=f"Number of bookies that store each {entry}  [default: the whole ensemble]",
        ),
        click.option(
            names["ack_quorum"],
            type=int,
            help=f"Number of bookies that confirm each {entry}  [default: a majority of the write quorum]",
        ),
        click.option(
            names["digest"],
            type=click.Choice(list(DIGESTS)),
            default="crc32c",
            show_default=True,
            help="Digest of every entry; hmac-sha256 needs a password.",
        ),
    )


def _new_ledger(
    ensemble_size: int,
    write_quorum: int | None,
    ack_quorum: int | None,
    digest: str,
    custom_metadata: dict[str, bytes],
    password: bytes,
) -> NewLedger:
    try:
        return NewLedger(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            digest=DIGESTS[digest],
            custom_metadata=custom_metadata,
            password=password,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _custom_metadata(_: click.Context, option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key or not separator:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE", param=option)
        if key in found:
            raise click.BadParameter(f"{key!r} is given twice", param=option)
        found[key] = os.fsencode(value)
    return found


new_ledger_options = made_of(
    "new",
    _new_ledger,
    shape_options("the ledger", "entry"),
    click.option(
        NEW_LEDGER_OPTIONS["custom_metadata"],
        "custom_metadata",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_custom_metadata,
        help="Custom metadata of the ledger; may be given several times.",
    ),
    click.option(
        NEW_LEDGER_OPTIONS["strict"],
        "strict",
        is_flag=True,
        help="Create the ledger only if its whole ensemble is alive; by default an ack quorum suffices.",
    ),
    password_option,
)
"""Adds the properties of a new ledger; the command gets them as `new`, a NewLedger, and `strict`."""


def refuse_new_ledger_options(why: str) -> None:
    """Raises UsageError if the command line gives properties of a new ledger although the command creates none."""
    context = click.get_current_context()
    for name, option in NEW_LEDGER_OPTIONS.items():
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} {why}")


OUTAGE_SECONDS_DEFAULT = 600.0


outage_option = click.option(
    "--outage-max",
    "outage_seconds_max",
    metavar="SECONDS",
    type=Finite(0),
    default=OUTAGE_SECONDS_DEFAULT,
    show_default=True,
    help="Seconds to wait for metadata or bookies that do not answer, counted from the first failed attempt. "
    "The attempt in progress, usually up to 20 s, is completed first.",
)
"""Adds an option for the longest outage that a command such as `tail` waits out."""
