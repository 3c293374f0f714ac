"""One file of settings for commands and programs: what a program takes of it, and how it is told what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ledgers import ClientConfig, DigestType
from metadata import BadSettings, metadata_uri_of
from qjm_compat.config import JournalConfig

KEY = "ab" * 32


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("METADATA", "CERTS", "KEY_FILE"):
        monkeypatch.delenv(f"BOOKLEDGER_{name}", raising=False)


def file_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "bookledger.toml"
    path.write_text(text)
    return path


def test_a_program_takes_its_table_and_what_stands_at_the_top(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    path = file_of(
        tmp_path,
        f'metadata = "sqlite:///x"\ncerts = "/etc/certs"\nkey-file = "{tmp_path}/key"\n'
        "[client]\nread_ahead_pages = 9\nread_seconds_max = 3\n"
        '[journal]\nensemble_size = 5\ndigest = "sha256"\n[bookie.run]\nport = 1\n[bench]\nseconds = 1\n'.replace(
            '"sha256"', f'"{DigestType.CRC32C.value}"'
        ),
    )
    config = ClientConfig.from_file(path)
    assert (config.read_ahead_pages, config.read_seconds_max) == (9, 3.0)
    assert (config.certificates, config.encryption_key) == ("/etc/certs", bytes.fromhex(KEY))
    assert config.window_bytes_max == ClientConfig().window_bytes_max
    assert JournalConfig.from_file(str(path)).ensemble_size == 5
    assert metadata_uri_of(path) == "sqlite:///x"


def test_the_environment_is_stronger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of(tmp_path, 'metadata = "sqlite:///x"\ncerts = "/file"\n')
    monkeypatch.setenv("BOOKLEDGER_METADATA", "sqlite:///y")
    monkeypatch.setenv("BOOKLEDGER_CERTS", "/environment")
    assert metadata_uri_of(path) == "sqlite:///y"
    assert ClientConfig.from_file(path).certificates == "/environment"


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    path = file_of(tmp_path, "")
    assert ClientConfig.from_file(path) == ClientConfig()
    assert JournalConfig.from_file(path) == JournalConfig()
    with pytest.raises(BadSettings, match="does not name the metadata: write metadata = "):
        metadata_uri_of(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "[client]\nread_ahed_pages = 1",
            "[client] read_ahed_pages: unknown name; did you mean read_ahead_pages?",
        ),
        ("[client]\nread_ahead_pages = 1.5", "[client] read_ahead_pages must be a whole number, not 1.5"),
        ("[client]\nread_ahead_pages = 0", "[client] read_ahead_pages is 0; it must be from 1 to 1024"),
        (
            "[client]\nwindow_bytes_max = 1",
            "window_bytes_max is 1; it must be from 1048576 (1 MiB) to 1099511627776 (1 TiB)",
        ),
        ("[client]\nread_seconds_max = nan", "read_seconds_max is nan; it must be from 0.001 to 86400"),
        ("[client]\ndelay_ensemble_change = 1", "delay_ensemble_change must be true or false, not 1"),
        (
            "[client]\nspeculative_read_seconds = 20",
            "[client]: speculative_read_seconds (20) must not be more",
        ),
        ("[client]\nmetrics = 1", "[client] metrics: unknown name"),
        ("client = 1", "client must be a table of settings, [client], not a value"),
        ("[clients]\nwindow_bytes_max = 1", ": clients: unknown name; did you mean client?"),
        ("metadta = 'x'", ": metadta: unknown name; did you mean metadata?"),
        ("certs = 1", "certs must be text in quotes, not 1"),
        ("key-file = '/nowhere/key'", "key-file: [Errno 2]"),
        ("[client", "Expected"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    path = file_of(tmp_path, text)
    with pytest.raises(BadSettings, match=re.escape(why)) as wrong:
        ClientConfig.from_file(path)
    assert str(wrong.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[journal]\ndigest = 'md5'", "[journal] digest must be one of"),
        ("[journal]\npassword = 'x'", "[journal] password: unknown name"),
        ("[journal]\nensemble_size = 2\nwrite_quorum = 3", "[journal]: "),
    ],
)
def test_a_journal_is_told_in_the_same_words(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(why)):
        JournalConfig.from_file(file_of(tmp_path, text))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="cannot be read: No such file"):
        ClientConfig.from_file(tmp_path / "none")


def test_a_program_needs_nothing_of_the_command_line_for_it() -> None:
    code = (
        "import sys, ledgers, qjm_compat; ledgers.ClientConfig.from_file; qjm_compat.JournalConfig.from_file; "
        "assert 'click' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
