"""Somebody plants symbolic links where an export writes: it follows none."""

from __future__ import annotations

from pathlib import Path

import pytest

from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.files.names import finalized_name
from qjm_compat.transfer.journal_export import SEEN_TXID, TEMPORARY
from tests.qjm_compat.transfer.made_directories import made_directory
from tests.qjm_compat.transfer.one_journal import on_a_journal

PRECIOUS = b"nobody touches this"


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        (finalized_name(1, 10), True),
        (finalized_name(1, 10) + TEMPORARY, False),
        (SEEN_TXID, True),
        (SEEN_TXID + TEMPORARY, False),
    ],
)
@pytest.mark.parametrize("is_dangling", [False, True], ids=["", "dangling"])
async def test_an_export_follows_no_link_that_somebody_planted(
    name: str, is_refused: bool, is_dangling: bool, tmp_path: Path
) -> None:
    current, out, precious = made_directory(tmp_path / "name"), tmp_path / "out", tmp_path / "precious"
    out.mkdir()
    if not is_dangling:
        precious.write_bytes(PRECIOUS)
    (out / name).symlink_to(precious)
    async with on_a_journal(tmp_path) as place:
        await place.bring(current)
        if is_refused:
            with pytest.raises(TransferRefused, match=r"is a symbolic link|is not a regular file"):
                await place.fetch(out)
            (out / name).unlink()
        assert (await place.fetch(out)).segments == 3
    assert not any(path.is_symlink() for path in out.iterdir())
    assert (precious.read_bytes() if precious.exists() else None) == (None if is_dangling else PRECIOUS)
