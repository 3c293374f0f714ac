"""Passwords come from files that their owner alone can read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metadata.secret_file import SECRET_BYTES_MAX, read_bounded, read_password
from tests.support.secrets import password_file


@pytest.mark.parametrize(
    ("content", "password"), [(b"a\n", b"a"), (b"a\r\n", b"a"), (b"a", b"a"), (b" a\n\n", b" a\n")]
)
def test_one_newline_at_the_end_is_no_part_of_it(tmp_path: Path, content: bytes, password: bytes) -> None:
    assert read_password(password_file(tmp_path / "p", content)) == password


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o755])
def test_a_file_of_ours_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = password_file(tmp_path / "p", b"secret")
    path.chmod(mode)
    with pytest.raises(ValueError, match=f"mode {mode:04o}.*chmod 600"):
        read_password(path)


def test_a_file_of_another_user_is_that_users_concern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = password_file(tmp_path / "p", b"secret")
    path.chmod(0o444)  # as secrets are mounted into a container
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    assert read_password(path) == b"secret"


def test_a_certificate_may_be_read_by_everybody(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"public")
    (tmp_path / "ca.pem").chmod(0o644)
    assert read_bounded(tmp_path / "ca.pem") == b"public"


def test_what_has_no_end_is_read_no_further_than_a_secret_can_be() -> None:
    with pytest.raises(ValueError, match=f"over {SECRET_BYTES_MAX} bytes"):
        read_bounded("/dev/zero")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_no_password_file_and_nobody_is_told_to_change_it(device: str) -> None:
    with pytest.raises(ValueError, match=f"^{device} is a device and contains no password: specify a file$"):
        read_password(device)
