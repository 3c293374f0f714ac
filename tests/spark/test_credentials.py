"""Passwords and keys travel to executors, and are not seen on the way."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from urllib.parse import unquote

import pytest

from metadata.secret_file import SECRET_BYTES_MAX
from spark.executor_access import ExecutorAccess, access_of
from tests.support.secrets import password_file

PASSWORD, KEY = "correct horse", "-----BEGIN PRIVATE KEY----- staple"


@pytest.fixture
def access(tmp_path: Path) -> ExecutorAccess:
    password_file(tmp_path / "password", PASSWORD + "\n")
    (tmp_path / "key.pem").write_text(KEY)
    uri = f"etcds://h1:2379,h2:2379/prod?cert_key={tmp_path}/key.pem&user=ada&timeout=3"
    return access_of(uri, str(tmp_path / "password"))


def test_neither_repr_nor_text_shows_a_secret(access: ExecutorAccess) -> None:
    for shown in (repr(access), str(access), f"{access}"):
        assert "h1:2379" in shown
        assert PASSWORD not in shown and "staple" not in shown


def path_of_key(uri: str) -> Path:
    return Path(unquote(uri.split("cert_key=")[1].split("&")[0]))


def test_files_are_there_for_the_work_and_on_no_disk(access: ExecutorAccess, tmp_path: Path) -> None:
    """Who is killed cannot clean up."""
    moved: ExecutorAccess = pickle.loads(pickle.dumps(access))  # to where the driver's files are not
    (tmp_path / "key.pem").unlink()
    with moved.uri() as uri:
        place = path_of_key(uri)
        assert [place.read_text(), place.read_text()] == [KEY, KEY]
        assert os.readlink(place).startswith("/memfd:")
        assert uri.startswith("etcds://h1:2379,h2:2379/prod?") and "user=ada" in uri and "timeout=3" in uri
    assert not place.exists()


def test_files_are_gone_where_the_work_failed(access: ExecutorAccess) -> None:
    with pytest.raises(ZeroDivisionError), access.uri() as uri:
        place = path_of_key(uri)
        assert place.exists()
        raise ZeroDivisionError
    assert not place.exists()


def test_the_password_is_what_stands_in_the_line(access: ExecutorAccess) -> None:
    assert access.password == PASSWORD.encode()


def test_a_uri_without_files_stays_as_it_is() -> None:
    with access_of("sqlite:///tmp/a b.db", None).uri() as uri:
        assert uri == "sqlite:///tmp/a b.db"


def test_files_that_cannot_be_secrets_are_refused_by_name(tmp_path: Path) -> None:
    password_file(tmp_path / "empty", "\n")
    (tmp_path / "huge").write_bytes(bytes(SECRET_BYTES_MAX + 1))
    with pytest.raises(ValueError, match="empty holds no password"):
        access_of("sqlite:///m.db", str(tmp_path / "empty"))
    with pytest.raises(ValueError, match="huge is over"):
        access_of(f"etcds://h/p?ca_cert={tmp_path}/huge", None)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        access_of("sqlite:///m.db", str(tmp_path / "nowhere"))
