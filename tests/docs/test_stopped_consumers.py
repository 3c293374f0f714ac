"""A consumer that is written as docs/logs.md says leaves its cursor to the next one when it gets SIGTERM."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledgers import LedgerClient

DOCUMENT = Path(__file__).parents[2] / "docs/logs.md"
IMPORTS = "import os, signal, sys\nfrom bookledger import LedgerClient\n"
LEASE_SECONDS = 10.0


def example(name: str) -> str:
    """The block of the document that defines this function."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (found,) = [block for block in blocks if f"def {name}(" in block]
    return IMPORTS + found


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("consume_payments", "consume_payments()"),
        ("consume_payments_async", "asyncio.run(consume_payments_async())"),
    ],
)
def test_the_next_consumer_begins_at_once_where_the_last_one_was_stopped(
    uri: str, monkeypatch: pytest.MonkeyPatch, name: str, call: str
) -> None:
    monkeypatch.setenv("BOOKLEDGER_METADATA", uri)
    with LedgerClient(uri) as client:
        log = client.log("payments", create=True)
        with log.writer() as writer:
            first = writer.append_batch([b"x"] * 3)[0]
            program = subprocess.Popen(
                [sys.executable, "-c", example(name) + call], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            assert program.stdout is not None
            assert [int(program.stdout.readline()) for _ in range(3)] == [first, first + 1, first + 2]
            program.send_signal(signal.SIGTERM)
            program.communicate()
            writer.append(b"next")
            begun = time.monotonic()
            position = next(iter(log.consume("billing"))).position
            assert position in (first + 2, first + 3)
            assert time.monotonic() - begun < LEASE_SECONDS / 2
        client.delete_log("payments")  # the next one begins anew
