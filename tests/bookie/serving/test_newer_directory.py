"""A directory that a newer version wrote is refused in these words, whichever of its files says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bookie.errors import NewerFormat
from bookie.index.index import _POSITION, Index
from bookie.log import format as log_format
from bookie.log.format import SegmentHeader, encode_segment_header
from bookie.serving import directory
from bookie.serving.history.directory_generation import NAME, starts_of

INCARNATION = "6f1a3c52-29f5-4a38-9a0c-5a2f0b1a7c11"


def cookie(path: Path, patch: pytest.MonkeyPatch) -> None:
    (path / directory.COOKIE).write_text(json.dumps({"version": 2, "news": True}))
    directory.read_cookie(path)


def life(path: Path, patch: pytest.MonkeyPatch) -> None:
    (path / NAME).write_bytes(b"%020d\n" % 7 * 5)
    starts_of(path)


def segment(path: Path, patch: pytest.MonkeyPatch) -> None:
    with patch.context() as newer:
        newer.setattr(log_format, "FORMAT_VERSION", 2)
        header = encode_segment_header(SegmentHeader(1, INCARNATION))
    log_format.decode_segment_header(header)


def index(path: Path, patch: pytest.MonkeyPatch) -> None:
    made = Index(path, 1 << 20)
    with made._env.begin(write=True) as txn:
        for key, number in ((b"checkpoint", 64), (b"version", 2)):
            made._meta.put(txn, key, _POSITION.pack(number))
    made.close()
    Index(path, 1 << 20).close()


@pytest.mark.parametrize("written", [cookie, life, segment, index], ids=lambda one: one.__name__)
def test_what_a_newer_version_wrote_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    with pytest.raises(NewerFormat, match=r"was written by a newer version of bookledger .*: run that$"):
        written(tmp_path, monkeypatch)
