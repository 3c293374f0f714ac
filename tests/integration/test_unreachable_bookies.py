"""A bookie that lives and that nobody reaches at the address it advertises: `cluster status` names it, and why."""

from __future__ import annotations

import os
from pathlib import Path

from bookledger.cli.processes import BookieProcess, started
from tests.docs.test_runbooks import follow
from tests.support.cluster_status import status
from tests.support.command_line import bookledger
from tests.support.waiting import until


def test_a_bookie_that_advertises_a_wrong_address_makes_the_cluster_not_whole(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    settings = tmp_path / "bookledger.toml"
    settings.write_text("[upkeep]\nreach_seconds = 0.1\n")
    environment = {**os.environ, "BOOKLEDGER_CONFIG": str(settings)}
    wrong = ("--insecure", "--advertise=127.0.0.2")
    bookies = [
        BookieProcess("b1", tmp_path / "b1", uri, environment=environment),
        BookieProcess("b2", tmp_path / "b2", uri, environment=environment, options=wrong),
    ]
    with started(bookies):
        until(lambda: any("unreachable for the auditor: b2" in why for why in status(uri)["why_not_whole"]))
        (why,) = status(uri)["why_not_whole"]
        assert "127.0.0.2:" in why and "--advertise" in why
        assert "NOT WHOLE" in bookledger("cluster", "status", f"--metadata={uri}").stdout.decode()
        follow("The auditor cannot reach a bookie", tmp_path, uri)
