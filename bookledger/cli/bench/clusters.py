"""The clusters of a benchmark: three bookies in plain text, and three with TLS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bookie.wire.trust.identity import Identity
from bookie.wire.trust.roles import Role
from ledgers import ClientConfig
from ledgers.config import PLAIN_TEXT
from metadata.sqlite.uri import uri_of

from ..certs.authority import Authority, make_authority
from ..processes import BookieProcess, bookie_processes, started
from .appends import ENSEMBLE_SIZE
from .cpu import CpuMeter

CERTIFICATE_DAYS = 7


@dataclass(frozen=True, slots=True)
class BenchCluster:
    """Three bookies: `config` is the client's, `suffix` is appended to workload names."""

    uri: str
    config: ClientConfig
    suffix: str
    bookies: Sequence[BookieProcess]

    def cpu_meter(self) -> CpuMeter:
        return CpuMeter([bookie.child.pid for bookie in self.bookies])


@contextmanager
def plain_cluster(directory: Path, metadata_uri: str = "") -> Iterator[BenchCluster]:
    """Starts a cluster with its metadata at this URI, or in a file of its own."""
    directory.mkdir()
    uri = metadata_uri or uri_of(directory / "metadata.db")
    with bookie_processes(ENSEMBLE_SIZE, directory, uri) as bookies:
        yield BenchCluster(uri, ClientConfig(certificates=PLAIN_TEXT), "", bookies)


@contextmanager
def tls_cluster(directory: Path) -> Iterator[BenchCluster]:
    """Starts a cluster with certificates of a new authority."""
    directory.mkdir()
    uri = uri_of(directory / "metadata.db")
    make_authority(directory / "authority", "bookledger bench", CERTIFICATE_DAYS)
    authority = Authority(directory / "authority")
    authority.issue(directory / "client", Identity(Role.CLIENT, "bench"), [], CERTIFICATE_DAYS)
    bookies = bookies_with_certificates(directory, uri, authority)
    with started(bookies):
        yield BenchCluster(uri, ClientConfig(certificates=str(directory / "client")), ", TLS", bookies)


def bookies_with_certificates(directory: Path, uri: str, authority: Authority) -> list[BookieProcess]:
    """Creates, but does not start, as many bookies as an ensemble has."""
    return [_with_certificate(directory, uri, n, authority) for n in range(1, ENSEMBLE_SIZE + 1)]


def _with_certificate(directory: Path, uri: str, number: int, authority: Authority) -> BookieProcess:
    name = f"bookie-{number}"
    certificates = directory / f"{name}-certs"
    authority.issue(certificates, Identity(Role.BOOKIE, name), ["127.0.0.1"], CERTIFICATE_DAYS)
    return BookieProcess(name, directory / name, uri, options=[f"--certs={certificates}"])
