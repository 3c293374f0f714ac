"""Fixtures for the whole test suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.etcd import EtcdServer

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """A running etcd shared by the session. Keep to a prefix of your own, and do not stop it."""
    yield from _running(EtcdServer(tmp_path_factory.mktemp("etcd")))


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """A running etcd of the test's own, which it may kill and restart."""
    yield from _running(EtcdServer(tmp_path))


@pytest.fixture
def tls_etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """A running etcd that speaks TLS with a certificate it made itself."""
    yield from _running(EtcdServer(tmp_path, tls=True))


def _running(server: EtcdServer) -> Iterator[EtcdServer]:
    try:
        server.start()
        yield server
    finally:
        server.stop()
