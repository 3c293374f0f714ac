"""The codec needs nothing but the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_codec_is_imported_where_no_other_package_is_installed() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from qjm_compat.edits import check_batch, encode_frame
check_batch(b"".join(encode_frame(3, txid, b"") for txid in range(1, 1001)), 1, 1000)
"""
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)
