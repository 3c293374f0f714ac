"""The clients in a notebook's kernel and in IPython, where an event loop runs already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

SECONDS_MAX = 60

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
assert NOTEBOOKS

BLOCKING = """
from ledgers import LedgerClient
client = LedgerClient(uri)
writer = client.create_ledger()
print(writer.append(b"one"), writer.append_async(b"two").result())
writer.close()
print([entry.payload for entry in client.open_ledger(writer.ledger_id).read()])
client.close()
with LedgerClient(uri) as client, client.create_ledger() as writer:
    print(writer.append(b"in a block"))
print("closed")
"""
SAID_BY_BLOCKING = "0 1\n[b'one', b'two']\n0\nclosed\n"

ASYNCIO = """
from ledgers.aio import LedgerClient
async with LedgerClient(uri) as client:
    async with await client.create_ledger() as writer:
        print(await writer.append(b"one"))
    reader = await client.open_ledger(writer.ledger_id)
    print([entry.payload async for entry in reader.read()])
"""
SAID_BY_ASYNCIO = "0\n[b'one']\n"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingKernelClient]:
    """A kernel as Jupyter starts one."""
    home = tmp_path_factory.mktemp("jupyter")
    environment = {
        **os.environ,
        "PYTHONPATH": os.getcwd(),
        "IPYTHONDIR": str(home),
        "JUPYTER_RUNTIME_DIR": str(home),
    }
    manager, client = start_new_kernel(kernel_name="python3", env=environment)
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def said_by_cell(kernel: BlockingKernelClient, code: str, drawn: list[str] | None = None) -> str:
    """What running the cell prints, on both streams. Raises where it fails. `drawn` gets its pictures."""
    said: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "stream":
            said.append(content["text"])
        elif message["msg_type"] == "execute_result" and drawn is not None:
            drawn.append(content["data"]["image/svg+xml"])
        assert message["msg_type"] != "error", content["traceback"]

    kernel.execute_interactive(code, timeout=SECONDS_MAX, output_hook=hear)
    return "".join(said)


@pytest.mark.parametrize(("cell", "said"), [(BLOCKING, SAID_BY_BLOCKING), (ASYNCIO, SAID_BY_ASYNCIO)])
def test_a_cell_of_a_notebook_uses_either_client(
    kernel: BlockingKernelClient, uri: str, cell: str, said: str
) -> None:
    assert said_by_cell(kernel, f"uri = {uri!r}\n{cell}") == said


def test_a_client_made_in_one_cell_is_used_and_closed_in_others(
    kernel: BlockingKernelClient, uri: str
) -> None:
    said_by_cell(kernel, f"from ledgers import LedgerClient; client = LedgerClient({uri!r})")
    said_by_cell(kernel, "writer = client.create_ledger()")
    assert said_by_cell(kernel, "print(writer.append(b'x'))") == "0\n"
    assert (
        said_by_cell(kernel, "import asyncio; print(await asyncio.to_thread(writer.append, b'y'))") == "1\n"
    )
    assert said_by_cell(kernel, "writer.close(); client.close(); print('closed')") == "closed\n"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_of_the_examples_runs_from_its_first_cell_to_its_last(
    kernel: BlockingKernelClient, uri: str, notebook: Path
) -> None:
    said_by_cell(kernel, f"import os; os.environ['BOOKLEDGER_METADATA'] = {uri!r}")
    said, drawn = "", list[str]()
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "what one machine measured once is not kept"
            said += said_by_cell(kernel, "".join(cell["source"]), drawn)
    assert "one by one: p50 " in said and "all at once: p50 " in said
    assert ": 500 entries, closed " in said
    (picture,) = drawn
    lines = ElementTree.fromstring(picture).findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [500, 500]


@pytest.mark.parametrize(("program", "said"), [(BLOCKING, SAID_BY_BLOCKING), (ASYNCIO, SAID_BY_ASYNCIO)])
def test_ipython_runs_either_client(uri: str, tmp_path: Path, program: str, said: str) -> None:
    (tmp_path / "program.ipy").write_text(f"uri = {uri!r}\n{program}")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "IPython",
            "--simple-prompt",
            "--colors=NoColor",
            str(tmp_path / "program.ipy"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "IPYTHONDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
