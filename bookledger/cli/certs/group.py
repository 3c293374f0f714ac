"""`bookledger certs`: creates an authority, and certificates for the processes of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bookie.wire.trust.identity import NoIdentity, parse_identity
from bookie.wire.trust.roles import Role

from ..messages.help import group
from ..options import F, FilePath, json_option
from ..output import print_record

if TYPE_CHECKING:
    from cryptography import x509

DAYS_MAX = 36_500

directory_argument = click.argument("directory", metavar="DIRECTORY", type=FilePath(file_okay=False))
authority_option = click.option(
    "--authority",
    type=FilePath(file_okay=False, exists=True),
    required=True,
    help="Directory created by `certs init`.",
)


def days_option(default: int) -> Callable[[F], F]:
    return click.option(
        "--days",
        type=click.IntRange(1, DAYS_MAX),
        default=default,
        show_default=True,
        help="Days until it expires.",
    )


@group()
def certs() -> None:
    """Issue certificates for mutual TLS, if you have no certificate authority.

    Every process needs a directory with ca.pem, cert.pem and key.pem. Pass it to a bookie with `bookie run --certs`,
    and to any other process in BOOKLEDGER_CERTS.

    Examples:
        bookledger certs init authority
        bookledger certs issue client:app app-certs --authority authority
    """


@certs.command()
@directory_argument
@click.option("--name", default="bookledger", show_default=True, help="Name of the authority.")
@days_option(3650)
@json_option
def init(directory: Path, name: str, days: int, as_json: bool) -> None:
    """Create an authority in DIRECTORY. Keep its key, ca-key.pem, away from the hosts of the cluster.

    Examples:
        bookledger certs init authority --name example.org
    """
    from .authority import make_authority

    _print(directory, make_authority(directory, name, days), as_json)


@certs.command()
@click.argument("who", metavar="ROLE:NAME")
@directory_argument
@authority_option
@click.option(
    "--host",
    "hosts",
    metavar="HOST",
    multiple=True,
    help="Host name or address of a bookie; may be given several times.",
)
@days_option(365)
@json_option
def issue(
    who: str, directory: Path, authority: Path, hosts: tuple[str, ...], days: int, as_json: bool
) -> None:
    """Issue a certificate for ROLE:NAME in DIRECTORY.

    Roles: bookie (NAME is the name that the bookie was formatted with), client, reader, journal, auditor, console,
    admin. A client, reader or journal can be restricted to the ledgers of one owner: client:app?owner=team-a.

    Examples:
        bookledger certs issue bookie:b1 b1-certs --authority ca --host b1.example.org
        bookledger certs issue client:app app-certs --authority authority
        bookledger certs issue "client:app?owner=team-a" a-certs --authority authority
    """
    from .authority import Authority, general_name

    try:
        identity = parse_identity(who)
    except NoIdentity as error:
        raise click.BadParameter(str(error), param_hint="ROLE:NAME") from error
    if identity.role is Role.BOOKIE and not hosts:
        raise click.UsageError("a bookie's certificate needs --host: its host names and addresses")
    _check_new(directory)
    for host in hosts:
        try:
            general_name(host)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--host") from error
    _print(directory, Authority(authority).issue(directory, identity, hosts, days), as_json)


@certs.command()
@directory_argument
@authority_option
@days_option(365)
@json_option
def renew(directory: Path, authority: Path, days: int, as_json: bool) -> None:
    """Reissue the certificate in DIRECTORY, with a new key. Processes that use it reload it.

    Examples:
        bookledger certs renew b1-certs --authority authority
    """
    from .authority import Authority

    _print(directory, Authority(authority).renew(directory, days), as_json)


@certs.command()
@directory_argument
@json_option
def show(directory: Path, as_json: bool) -> None:
    """Show the owner and validity of the certificate in DIRECTORY. The exit code is 1 if it cannot be used.

    Examples:
        bookledger certs show b1-certs
    """
    from bookie.wire.trust.certificates import Certificates

    from .authority import certificate_in

    found = certificate_in(directory)
    Certificates(directory)  # raises if it is unusable
    _print(directory, found, as_json)
    if not found.not_valid_before_utc <= datetime.now(UTC) <= found.not_valid_after_utc:
        raise ValueError(f"the certificate in {directory} is not valid today")


def _check_new(directory: Path) -> None:
    from bookie.wire.trust.certificates import CERTIFICATE, KEY

    if any((directory / name).exists() for name in (CERTIFICATE, KEY)):
        raise ValueError(
            f"{directory} already contains a certificate: renew it, or specify another directory"
        )


def _print(directory: Path, made: x509.Certificate, as_json: bool) -> None:
    from cryptography import x509

    names: list[str] = []
    for extension in made.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            names = [str(one.value) for one in extension.value]
    print_record(
        {
            "subject": made.subject.rfc4514_string(),
            "names": names if as_json else ", ".join(names),
            "not_after": made.not_valid_after_utc.isoformat(timespec="seconds"),
            "directory": str(directory),
        },
        as_json=as_json,
    )
