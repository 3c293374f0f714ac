"""The console as people see it: real daemons and a real browser, on clusters that are well, large and wounded."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from bookledger.cli.processes import started
from bookledger.console.console import STREAMS_MAX
from ledgers import LedgerClient
from metadata import open_store
from metadata.records.ledger_record import LedgerState
from metadata.records.ledger_store import LedgerStore
from metadata.sqlite.sqlite_uri import uri_of
from tests.support import browser as chromium
from tests.support.browser import DESKTOP, PHONE, Chrome, browser, complaints, look_as, violations
from tests.support.command_line import bookledger
from tests.support.console import console
from tests.support.etcd import EtcdServer
from tests.support.http import NO_PROXY, HttpBookie, get
from tests.support.journal_node_daemons import journal_nodes
from tests.support.lagging_journal import write_lagging_journal
from tests.support.made_clusters import a_large_cluster, a_record
from tests.support.waiting import until

PATHS = ("/", "/bookies", "/ledgers", "/ledgers/1", "/ledgers/1/entries", "/healing", "/logs", "/journals")
HOSTILE = b"<script>document.title = 'stolen'</script><img src=x onerror=alert(1)>"
PICTURES = os.environ.get("BOOKLEDGER_PICTURES", "")
"""A directory for screenshots, for those who want to look."""

if chromium.WHY_NOT:
    pytestmark = pytest.mark.skip(reason=chromium.WHY_NOT)


MANNERS = {"desktop": (DESKTOP, False), "dark": (DESKTOP, True), "phone": (PHONE, False)}
thoroughly = pytest.mark.parametrize(
    "manners", [("desktop",), pytest.param(tuple(MANNERS), marks=pytest.mark.long)]
)
"""In which manners pages are looked at."""


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture
def driver(chrome: Chrome) -> Chrome:
    """Without the page of the test before, and without what that said when its console ended."""
    chrome.get("about:blank")
    complaints(chrome)
    return chrome


def bookies(path: Path, uri: str, count: int) -> list[HttpBookie]:
    options = ["--http=127.0.0.1:0", "--lost-after=1", "--fault-domain=/room1/rack1"]
    return [
        HttpBookie(f"b{n}", path / f"b{n}", uri, lease_seconds=1, options=options)
        for n in range(1, count + 1)
    ]


def text_of(driver: Chrome) -> str:
    return str(driver.find_element("tag name", "body").text)


def link_to(driver: Chrome, words: str) -> str:
    """Where the link with these words leads; in one step, too."""
    return str(
        driver.execute_script(
            "return [...document.links].find(one => one.innerText.trim() == arguments[0]).href", words
        )
    )


def rows_of(driver: Chrome) -> dict[str, list[str]]:
    """The cells of each row by its heading, in one step: a page that shows itself anew takes away what was there."""
    found = driver.execute_script(
        "return [...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(one => one.innerText.trim()))"
    )
    return {heading: cells for heading, *cells in found}


def looked_at(
    driver: Chrome, url: str, name: str, manners: tuple[str, ...] = ("desktop",), *, failing: bool = False
) -> str:
    """The page has nothing to complain of and is not wider than it may be. `failing`: its status is an error, which the
    browser tells."""
    driver.get(url)
    for manner in manners:
        size, dark = MANNERS[manner]
        look_as(driver, size, dark=dark)
        assert violations(driver) == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= size[0]
        if PICTURES:
            driver.save_screenshot(f"{PICTURES}/{name}-{manner}.png")
    look_as(driver, DESKTOP)
    assert [one for one in complaints(driver) if not failing or "Failed to load" not in one] == []
    return text_of(driver)


def soon(is_so: Callable[[], bool], seconds_max: float = 40) -> None:
    until(is_so, seconds_max=seconds_max)


COUNTED_SECONDS_MAX = 240
"""For walking over the records of a large cluster, on a busy machine too."""


@thoroughly
def test_every_page_of_a_cluster_that_is_well_and_then_wounded(
    tmp_path: Path, driver: Chrome, manners: tuple[str, ...]
) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    all_three = bookies(tmp_path, uri, 3)
    with (
        started(all_three),
        console(tmp_path, uri, "--entries", "--lost-after=1") as url,
        LedgerClient(uri) as client,
    ):
        writer = client.create_ledger(custom_metadata={"application": HOSTILE})
        for n in range(120):
            writer.append(HOSTILE if n == 3 else b"order %d" % n)
        writer.close()

        driver.get(f"{url}/")
        soon(lambda: "The cluster is whole" in text_of(driver))  # it looks again by itself
        for path in PATHS:
            told = looked_at(driver, url + path, f"well{path.replace('/', '-')}", manners)
            assert driver.title.endswith("· bookledger"), "no script of a stranger ran"
            assert "missing" not in told.replace("no copy is missing", "")
        assert HOSTILE.decode() in looked_at(driver, f"{url}/ledgers/1", "hostile")
        driver.get(f"{url}/ledgers/1/entries?first=100")
        assert "order 119" in text_of(driver)
        assert "Later" not in text_of(driver)

        driver.get(f"{url}/ledgers/1")
        assert driver.find_elements("css selector", "td.lost") == []
        all_three[1].kill()
        soon(lambda: len(driver.find_elements("css selector", "td.lost")) == 1)
        driver.get(f"{url}/healing")
        soon(lambda: "lost on b2" in text_of(driver))
        driver.get(f"{url}/")
        soon(lambda: "The cluster is not whole" in text_of(driver))
        for path in PATHS:
            looked_at(driver, url + path, f"wounded{path.replace('/', '-')}", manners)
        driver.get(f"{url}/")
        assert "not registered: b2; their data is to be copied elsewhere (for how long)" in text_of(driver)
        soon(lambda: "All closed ledgers can be read: each entry has at least" in text_of(driver))
        assert "Half, or 99 of 100, of the appends" not in text_of(driver)
        driver.find_element("tag name", "summary").click()
        assert "Half, or 99 of 100, of the appends" in text_of(driver)
        assert violations(driver) == []

        bookie_url = all_three[0].url  # the same is shown by each bookie, but entries
        told = looked_at(driver, f"{bookie_url}/ledgers/1", "on-a-bookie")
        assert "copies missing" in told
        assert get(f"{bookie_url}/ledgers/1/entries")[0] == 404


def test_throughput_and_latency_are_shown_while_somebody_writes(tmp_path: Path, driver: Chrome) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    with started(bookies(tmp_path, uri, 3)), console(tmp_path, uri) as url, LedgerClient(uri) as client:
        driver.get(f"{url}/")
        writer = client.create_ledger()

        def is_shown() -> bool:
            for _ in range(20):
                writer.append(b"x" * 1000)
            value = driver.execute_script(
                "return [...document.querySelectorAll('.tile')].map(one => one.querySelector('dd').textContent)"
            )
            assert isinstance(value, list)
            return value[0] not in ("0", "–") and value[3].endswith(" ms")

        soon(is_shown)
        soon(lambda: is_shown() and len(chart_labels(driver)) == 4)
        entries, size, reads, latency = chart_labels(driver)
        span = r"in the last \d+ s: from 0 to"
        assert re.fullmatch(rf"Entries stored per second, {span} [1-9][\d.,]*/s", entries)
        assert re.fullmatch(rf"Stored per second, {span} [1-9][\d.]* [KM]?i?B/s", size)
        assert re.fullmatch(rf"Entries read per second, {span} 0/s", reads)
        assert re.fullmatch(rf"Append on disk, p99, {span} [1-9][\d.]* ms", latency)
        assert violations(driver) == []
        assert complaints(driver) == []


def chart_labels(driver: Chrome) -> list[str]:
    """What each chart that has a line says to those who do not see it, in one step."""
    found: list[str] = driver.execute_script(
        "return [...document.querySelectorAll('.chart svg[role=img]')].map(one => one.getAttribute('aria-label'))"
    )
    return found


def test_every_page_of_an_empty_cluster(tmp_path: Path, driver: Chrome) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    assert (
        bookledger("bookie", "format", f"--metadata={uri}", f"--data={tmp_path}/b1", "--id=b1").returncode
        == 0
    )
    with console(tmp_path, uri) as url:
        for path in PATHS:
            told = looked_at(
                driver, url + path, f"empty{path.replace('/', '-')}", failing=path.startswith("/ledgers/1")
            )
            assert "Traceback" not in told
        driver.get(f"{url}/ledgers")
        assert "There are no ledgers yet." in text_of(driver)


@thoroughly
def test_journals_with_one_acceptor_that_lags(
    tmp_path: Path, driver: Chrome, manners: tuple[str, ...]
) -> None:
    """Real segments at three journal daemons, of which one was away while the second was written."""
    uri = uri_of(tmp_path / "metadata.db")
    options = ("--ensemble", "1")
    with (
        started(bookies(tmp_path, uri, 1)),
        console(tmp_path, uri) as url,
        journal_nodes(uri, tmp_path, 3, *options) as nodes,
    ):
        asyncio.run(write_lagging_journal(nodes, url))
        driver.get(f"{url}/journals")
        soon(lambda: "writer's epoch 1" in text_of(driver))
        told = looked_at(driver, f"{url}/journals", "journals", manners)
        assert "from 7 in ledger" in told
        assert "2 of 3 acceptors here have all finalized segments." in told
        rows = rows_of(driver)
        assert rows["jn1"][:5] == rows["jn2"][:5] == ["0", "0", "6", "1", "1"]
        assert rows["jn3"][:1] == ["3"]
        assert int(rows["jn3"][1].replace(",", "")) > 0
        assert rows["jn3"][2:5] == ["3", "1", "1"]
        assert len(driver.find_elements("css selector", "td .warn")) == 2


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("ledgers", "manners"),
    [(2_000, ("desktop",)), pytest.param(100_000, tuple(MANNERS), marks=pytest.mark.long)],
)
def test_every_page_of_a_large_cluster_comes_at_once(
    tmp_path: Path, driver: Chrome, ledgers: int, manners: tuple[str, ...]
) -> None:
    uri = asyncio.run(a_large_cluster(tmp_path, ledgers))
    with console(tmp_path, uri) as url:
        driver.set_page_load_timeout(10)
        for path in (*PATHS, f"/ledgers?first={ledgers // 2}"):
            if not path.endswith("/entries"):
                looked_at(driver, url + path, f"large{path.replace('/', '-')}", manners)
        driver.get(f"{url}/ledgers")
        assert len(driver.find_elements("css selector", "tbody tr")) == 50
        assert next(iter(rows_of(driver))) == str(ledgers)
        driver.get(link_to(driver, "Oldest"))
        assert next(iter(rows_of(driver))) == "1"
        driver.get(link_to(driver, "Newest"))
        assert next(iter(rows_of(driver))) == str(ledgers)
        driver.get(f"{url}/")
        told = f"{ledgers:,}"
        soon(lambda: told in text_of(driver), COUNTED_SECONDS_MAX)  # it is counted beside


def test_ledgers_are_searched_by_state_and_custom_metadata_with_the_keyboard(
    tmp_path: Path, driver: Chrome
) -> None:
    wanted = {"state": LedgerState.IN_RECOVERY, "last_entry": None, "length_bytes": None}
    custom = {"application": b"orders & bills"}
    uri = asyncio.run(a_large_cluster(tmp_path, 2_000, last={**wanted, "custom_metadata": custom}))
    with console(tmp_path, uri) as url:
        driver.get(f"{url}/ledgers")
        driver.find_element("id", "state").send_keys(
            "in rec", Keys.TAB, "application=orders & bills", Keys.ENTER
        )
        soon(lambda: list(rows_of(driver)) == ["2000"])
        assert driver.find_element("id", "state").get_property("value") == "in_recovery"
        looked_at(driver, driver.current_url, "searched")
        looked_at(driver, f"{url}/ledgers?state=closed&custom=application", "searched-in-vain")
        assert "There are no such ledgers." in text_of(driver)
        driver.get(f"{url}/ledgers?state=closed")
        assert len(rows_of(driver)) == 50
        driver.get(link_to(driver, "Later"))
        assert next(iter(rows_of(driver))) == "51" and "state=closed" in driver.current_url
        looked_at(driver, f"{url}/ledgers?state=shut", "wrong-state", failing=True)
        assert "state must be one of open, in_recovery, closed" in text_of(driver)


@pytest.mark.parametrize("path", ["/", "/ledgers", "/ledgers/1"])
def test_the_keyboard_reaches_all_that_can_be_used_and_the_first_key_skips_to_it(
    tmp_path: Path, driver: Chrome, path: str
) -> None:
    uri = asyncio.run(a_large_cluster(tmp_path, 60))
    with console(tmp_path, uri) as url:
        driver.get(url + path)
        wanted = driver.execute_script(
            "return document.querySelectorAll('a[href], button, input, select, summary, [tabindex=\"0\"]').length"
        )
        body, reached = driver.find_element("tag name", "body"), 0
        driver.execute_script("window.reached = new Set()")
        body.send_keys(Keys.TAB)
        assert driver.execute_script("return document.activeElement.textContent") == "Skip to content"
        for _ in range(wanted + 2):
            reached = driver.execute_script(
                "const one = document.activeElement;"
                "return (one === document.body ? window.reached : window.reached.add(one)).size"
            )
            driver.switch_to.active_element.send_keys(Keys.TAB)
        assert reached >= wanted > 5, "the skip link, the pages, and what is below"
        driver.get(url + path)
        driver.find_element("tag name", "body").send_keys(Keys.TAB, Keys.ENTER)
        assert driver.execute_script("return document.activeElement.id") == "main"


def test_a_page_is_right_without_a_stream_and_after_its_console_was_away(
    tmp_path: Path, driver: Chrome
) -> None:
    uri = asyncio.run(a_large_cluster(tmp_path, 1))
    with console(tmp_path, uri) as url:
        port = int(url.rpartition(":")[2])
        held = [NO_PROXY.open(f"{url}/events", timeout=10) for _ in range(STREAMS_MAX)]
        try:
            driver.get(f"{url}/ledgers")  # no stream is left for it
            assert list(rows_of(driver)) == ["1"]
            asyncio.run(_add_ledger(uri, 2))
            soon(lambda: list(rows_of(driver)) == ["2", "1"])
        finally:
            for one in held:
                one.close()
        driver.get(f"{url}/ledgers")
        soon(lambda: _pulse(driver) == "live")
    soon(lambda: _pulse(driver) == "the console does not answer")
    asyncio.run(_add_ledger(uri, 3))
    with console(tmp_path, uri, port=port):
        soon(lambda: list(rows_of(driver)) == ["3", "2", "1"] and _pulse(driver) == "live")


def _pulse(driver: Chrome) -> str:
    return str(driver.execute_script("return document.getElementById('pulse').textContent"))


async def _add_ledger(uri: str, ledger_id: int) -> None:
    store = await open_store(uri)
    await LedgerStore(store).create(a_record(ledger_id))
    await store.close()


@thoroughly
def test_every_page_of_a_cluster_that_dies(tmp_path: Path, driver: Chrome, manners: tuple[str, ...]) -> None:
    """One bookie of four is left."""
    uri = asyncio.run(a_large_cluster(tmp_path, 60, living=1))
    with console(tmp_path, uri) as url:
        driver.get(f"{url}/")
        soon(lambda: "The cluster is not whole" in text_of(driver))
        for path in PATHS:
            if not path.endswith("/entries"):
                looked_at(driver, url + path, f"dying{path.replace('/', '-')}", manners)
        for path in ("/", "/healing"):
            driver.get(url + path)
            assert "b2, b3, b4 are absent" in text_of(driver)
            assert "cluster decommission" in text_of(driver), "what only people can know, they are asked for"


@thoroughly
def test_a_cluster_whose_etcd_is_away_is_shown_again_when_it_is_back(
    tmp_path: Path, driver: Chrome, manners: tuple[str, ...]
) -> None:
    with EtcdServer(tmp_path) as etcd:
        uri = f"etcd://{etcd.endpoint}/test"
        with started(bookies(tmp_path, uri, 1)) as _, console(tmp_path, uri) as url:
            driver.get(f"{url}/")
            assert "Bookies living" in text_of(driver)
            etcd.kill()
            soon(lambda: "The metadata is unavailable" in text_of(driver))
            for path in PATHS[: len(manners)]:  # each waits until the metadata counts as away
                told = looked_at(driver, url + path, f"away{path.replace('/', '-')}", manners, failing=True)
                assert "The metadata is unavailable" in told
            etcd.restart()
            driver.get(f"{url}/bookies")
            soon(lambda: "127.0.0.1:" in text_of(driver))
