"""Makes the pictures of docs/pictures: a console in a real browser, on a cluster that is well and then loses a bookie.

`python -m tests.docs.console_pictures`, where Chromium is installed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bookledger.cli.processes import BOOKLEDGER, Child, started
from ledgers import LedgerClient, Retention, WriteHandle
from ledgers.blocking.log import LogWriter
from metadata.sqlite.sqlite_uri import uri_of
from tests.support import browser as chromium
from tests.support.browser import Chrome, browser, look_as
from tests.support.console import console
from tests.support.http import HttpBookie
from tests.support.journal_node_daemons import journal_nodes
from tests.support.lagging_journal import write_lagging_journal
from tests.support.waiting import until

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
PICTURE_BYTES_MAX = 150 * 1024
SKUS = ("tea-250g", "teapot", "cup-blue", "kettle-1l")
RACKS = ("/room1/rack1", "/room1/rack1", "/room1/rack2", "/room2/rack3", "/room2/rack3")
WIDTH = 1100
PHONE_WIDTH = 390


def main() -> int:
    if chromium.WHY_NOT:
        print(chromium.WHY_NOT, file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="bookledger-pictures-") as path,
        browser(Path(path) / "p") as driver,
    ):
        take_all(Path(path), driver)
    return 0


def take_all(path: Path, driver: Chrome) -> None:
    uri = uri_of(path / "metadata.db")
    bookies = [_bookie(path, uri, n, rack) for n, rack in enumerate(RACKS, 1)]
    with (
        started(bookies),
        _auditor(path, uri),
        console(path, uri, "--entries", "--lost-after=2") as url,
        LedgerClient(uri) as client,
    ):
        for n in range(1, 9):
            _write(client, n, 50 * n)
        with _led_log(client) as writer:
            driver.get(f"{url}/logs/{writer.record.name}")
            _wait_for(driver, "of election")
            take(driver, "log", 860)
        driver.get(f"{url}/ledgers/1/entries")
        _wait_for(driver, '"order": 1')
        take(driver, "entries", 480)
        with _somebody_writes(client):
            driver.get(f"{url}/")
            _wait_for(driver, "The cluster is whole")
            until(lambda: _points(driver) >= 12)
            take(driver, "cluster", 860)
            take(driver, "cluster-phone", 844, width=PHONE_WIDTH)
        changed = client.create_ledger(ensemble_size=3, custom_metadata={"application": b"orders"})
        _append(changed, 400)
        for lost in sorted(changed.record.fragments[0].ensemble)[:2]:
            bookie = bookies[int(lost.bookie_id[-1]) - 1]
            bookie.kill()
            _append(changed, 300)  # a place changes hands
            bookie.start()
        changed.close()
        bookie.kill()
        driver.get(f"{url}/healing")
        _wait_for(driver, f"lost on {lost.bookie_id}")
        _wait_for(driver, "nothing is copied at this moment")  # the ledgers have been counted since
        take(driver, "healing", 620)
        driver.get(f"{url}/")
        _wait_for(driver, "The cluster is not whole")
        _wait_for(driver, "lack copies")
        take(driver, "cluster-wounded", 880, dark=True)
        for name, height in (("bookies", 620), (f"ledgers/{changed.ledger_id}", 780)):
            driver.get(f"{url}/{name}")
            until(lambda: "live" in _text(driver))
            take(driver, f"{name.partition('/')[0].removesuffix('s')}-wounded", height)
        take(driver, "ledger-phone", 844, width=PHONE_WIDTH)
        with journal_nodes(uri, path, 3, "--ensemble", "1") as nodes:
            asyncio.run(write_lagging_journal(nodes, url))
            driver.get(f"{url}/journals")
            _wait_for(driver, "writer's epoch 1")
            take(driver, "journals-wounded", 390)


@contextmanager
def _auditor(path: Path, uri: str) -> Iterator[None]:
    """By itself: bookies that do not heal are none."""
    command = (*BOOKLEDGER, "autorecovery", f"--metadata={uri}", "--lost-after=2", "--json")
    child = Child(command, name="autorecovery", log=path / "autorecovery.log")
    child.hear()
    try:
        yield
    finally:
        child.stop()


def take(driver: Chrome, name: str, height: int, *, width: int = WIDTH, dark: bool = False) -> None:
    look_as(driver, (width, height), dark=dark)
    file = PICTURES / f"{name}.png"
    driver.save_screenshot(str(file))
    assert file.stat().st_size <= PICTURE_BYTES_MAX, f"{file} is too large for a document"
    print(f"{file}: {file.stat().st_size} bytes")


def _bookie(path: Path, uri: str, number: int, rack: str) -> HttpBookie:
    """Nobody heals, so that what is wounded stays so while it is drawn."""
    options = ["--http=127.0.0.1:0", "--lost-after=2", f"--fault-domain={rack}", "--no-heal"]
    return HttpBookie(f"host{number}", path / f"host{number}", uri, lease_seconds=1, options=options)


def _write(client: LedgerClient, customer: int, entries: int) -> None:
    orders = [{"customer": customer, "order": n, "sku": SKUS[n % len(SKUS)]} for n in range(entries)]
    with client.create_ledger(ensemble_size=3, custom_metadata={"application": b"orders"}) as writer:
        writer.append_batch([json.dumps(one).encode() for one in orders])


@contextmanager
def _led_log(client: LedgerClient) -> Iterator[LogWriter]:
    """A log that a leader writes, with some segments, and two consumers of which one is behind."""
    week = Retention(age_seconds=7 * 86400, cursors=("billing",), cursor_silent_seconds=14 * 86400)
    orders = client.create_log("orders", roll_records=500, retention=week)
    with client.election("orders").lead() as term, orders.writer(term=term) as writer:
        for n in range(20):
            writer.append_batch([json.dumps({"order": 100 * n + m}).encode() for m in range(100)])
        for name, position in (("billing", 1100), ("search", 1980)):
            with orders.cursor(name) as cursor:
                cursor.commit(position)
        yield writer


def _append(writer: WriteHandle, entries: int) -> None:
    for _ in range(entries):
        writer.append(b"order" * 50)


@contextmanager
def _somebody_writes(client: LedgerClient) -> Iterator[None]:
    ends = threading.Event()

    def write() -> None:
        with client.create_ledger(ensemble_size=3, custom_metadata={"application": b"orders"}) as writer:
            while not ends.is_set():
                writer.append_batch([b"order" * 100] * 20)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _text(driver: Chrome) -> str:
    return str(driver.find_element("tag name", "body").text)


def _wait_for(driver: Chrome, words: str) -> None:
    try:
        until(lambda: words in _text(driver))
    except AssertionError:
        print(_text(driver), file=sys.stderr)
        raise


def _points(driver: Chrome) -> int:
    """Of the first chart's line."""
    return int(driver.execute_script("return document.querySelector('polyline')?.points.length || 0"))


if __name__ == "__main__":
    sys.exit(main())
