"""Connections that begin with TLS: what never greets leaves nothing behind, and what is sent is counted and arrives."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch
from weakref import WeakSet

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID

from bookie.config import BookieConfig
from bookie.errors import BookieError
from bookie.serving.listener import Listener
from bookie.wire import LacRequest, ReadRequest, codec
from bookie.wire.data import sockets
from bookie.wire.data.data_connection import Connection
from bookie.wire.data.framing import HEADER, FrameKind
from bookie.wire.trust.certificates import CERTIFICATE, KEY, Certificates
from bookie.wire.trust.roles import Role
from bookledger.cli.certs.authority import _new_key, _pem_of, _put
from metadata.audit import AUDIT
from tests.bookie.serving.served import served
from tests.support.aio import until_true
from tests.support.authority import TestAuthority
from tests.support.raw_data import after_handshake

MIB = 1024 * 1024


def config_of(tmp_path: Path, certificates: Path) -> BookieConfig:
    return BookieConfig(
        data_directory=tmp_path, metadata_uri="memory://test", port=0, certificates=certificates
    )


@asynccontextmanager
async def on_listener(tmp_path: Path) -> AsyncIterator[tuple[Listener, TestAuthority]]:
    authority = TestAuthority(tmp_path)
    listener = Listener(config_of(tmp_path, authority.bookie("b1")))
    await listener.start()
    try:
        yield listener, authority
    finally:
        await listener.stop()


async def nothing_is_left(listener: Listener) -> bool:
    return not listener._others and not listener.guard.table.count


async def test_what_never_greets_leaves_nothing_behind(tmp_path: Path) -> None:
    async with on_listener(tmp_path) as (listener, _):
        host, _, port = listener.address.rpartition(":")
        for said in (b"", b"no TLS at all", b"\x16\x03\x01\xff\xff" + bytes(100)) * 20:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(said)
            writer.close()
        await until_true(lambda: nothing_is_left(listener))


async def test_what_is_accepted_in_the_turn_in_which_the_port_is_closed_is_closed_too(tmp_path: Path) -> None:
    """What nobody closes is told by its finaliser, and fails this test."""
    for turns in range(8):
        async with on_listener(tmp_path / str(turns)) as (listener, _):
            host, _, port = listener.address.rpartition(":")
            with socket.create_connection((host, int(port))):
                for _ in range(turns):
                    await asyncio.sleep(0)
                await listener.stop()
                assert await nothing_is_left(listener)
        gc.collect()


@contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def test_the_buffers_of_a_connection_go_with_it_and_wait_for_no_collection(tmp_path: Path) -> None:
    """With TLS that is some 300 KiB for each; a bookie looks for circles when many more have come and gone."""
    authority = TestAuthority(tmp_path)
    tls = Certificates(authority.of(Role.CLIENT, "app")).client
    left = WeakSet[asyncio.BaseTransport]()
    made = Connection.connection_made

    def connection_made(self: Connection, transport: asyncio.BaseTransport) -> None:
        left.add(transport)
        made(self, transport)

    async with served(tmp_path / "bookie", certificates=authority.bookie("b1")) as client:
        with no_collection(), patch.object(Connection, "connection_made", connection_made):
            for _ in range(5):
                async with after_handshake(client.bookie.address, tls) as raw:
                    raw.writer.write(HEADER.pack(8 * MIB, 0, FrameKind.APPEND) + bytes(MIB))
                    await raw.writer.drain()
                    assert left
            await until_true(lambda: none_is_left(left))


async def none_is_left(left: WeakSet[asyncio.BaseTransport]) -> bool:
    return not left


def test_a_bookie_does_not_start_with_a_certificate_that_has_run_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = TestAuthority(tmp_path).expired(Role.BOOKIE, monkeypatch)
    with pytest.raises(BookieError, match=r"cert\.pem ran out on .* UTC: bookledger certs renew"):
        Listener(config_of(tmp_path, directory))


async def test_a_certificate_that_runs_out_meanwhile_is_told_until_it_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_listener(tmp_path) as (listener, authority):
        assert listener.why_distrusted() == ""
        assert listener.certificates is not None
        assert listener.certificates.expires_at > datetime.now(UTC)
        directory, old = authority.bookie("b1"), authority.expired(Role.BOOKIE, monkeypatch)
        for name in (CERTIFICATE, KEY):
            (old / name).rename(directory / name)
        assert listener.why_distrusted().startswith(f"{directory / CERTIFICATE} ran out on ")
        authority.authority.renew(directory, 1)
        assert listener.why_distrusted() == ""


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TimeoutError(), "it took longer than 5 s"),
        (ConnectionResetError(), "the peer ended the connection, perhaps because it refuses our certificate"),
        (ValueError(), "ValueError"),
        (ssl.SSLError(1, "unknown ca"), "unknown ca"),
    ],
)
def test_why_a_handshake_failed_is_never_empty(error: Exception, why: str) -> None:
    assert why in sockets.describe_tls_failure(error)


def unreadable(authority: TestAuthority, directory: Path) -> Path:
    """A certificate of a trusted authority with an alternative name that is no text."""
    good = authority.of(Role.CLIENT, "good")
    signer = authority.authority
    key, now = _new_key(), datetime.now(UTC)
    name = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"\x30\x04\x82\x02\xff\xfe")
    made = (
        x509.CertificateBuilder()
        .subject_name(signer.certificate.subject)
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(name, critical=False)
        .sign(signer._key, hashes.SHA256())
    )
    directory.mkdir()
    (directory / "ca.pem").write_bytes((good / "ca.pem").read_bytes())
    _put(directory / KEY, _pem_of(key), private=True)
    _put(directory / CERTIFICATE, made.public_bytes(Encoding.PEM))
    return directory


async def test_a_certificate_that_cannot_be_understood_takes_no_place(tmp_path: Path) -> None:
    async with on_listener(tmp_path) as (listener, authority):
        tls = Certificates(unreadable(authority, tmp_path / "unreadable")).client
        host, _, port = listener.address.rpartition(":")
        for _ in range(3):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
            with pytest.raises((OSError, asyncio.IncompleteReadError)):  # cut, with or without an alert
                await reader.readexactly(1)
            writer.close()
        await until_true(lambda: nothing_is_left(listener))


# --- what is told ---------------------------------------------------------------------------


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the audit log has of fences."""
    caplog.set_level(logging.INFO, logger=AUDIT.name)
    return lambda: [record.message for record in caplog.records if '"what": "fence"' in record.message]


async def test_whoever_goes_away_in_the_handshake_was_refused_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with on_listener(tmp_path) as (listener, _):
        _, writer = await asyncio.open_connection(*listener.address.rsplit(":", 1))
        writer.transport.abort()

        async def is_told() -> bool:
            return "did not complete the TLS handshake: the peer ended" in caplog.text

        await until_true(is_told)
        assert AUDIT.name not in {record.name for record in caplog.records}


@pytest.mark.parametrize("kind", [FrameKind.READ, FrameKind.LAST_ADD_CONFIRMED])
async def test_a_fence_is_told_once_however_it_is_asked_for(
    tmp_path: Path, kind: FrameKind, told: Callable[[], list[str]]
) -> None:
    async with served(tmp_path) as client, after_handshake(client.bookie.address) as raw:
        me = client.incarnation
        for _ in range(3):
            if kind is FrameKind.READ:
                body = codec.encode(ReadRequest(me, 8, 0, 0, 1024, fence=True))
            else:
                body = codec.encode(LacRequest(me, 8, fence=True))
            await raw.call(kind, body)
        await raw.call(FrameKind.READ, codec.encode(ReadRequest(me, 9, 0, 0, 1024)))
    (line,) = told()
    assert '"ledger_id": 8' in line and '"from": "127.0.0.1"' in line
