"""What cannot be meant ends with a code of its own, says what is wrong, and has made nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from bookledger.cli.messages.exit_codes import ExitCode
from tests.support.command_line import bookledger

WRONG = (
    ("no-such-command", "No such command"),
    # Numbers, names and paths
    ("ledger read not-a-number", "not-a-number"),
    ("ledger tail 1 --timeout=nan", "nan"),
    ("ledger tail 1 --count=0", "0 is not in the range"),
    ("ledger list --since=yesterday", "'yesterday' is not a time"),
    ("ledger read 1 --output ''", "the path is empty"),
    ("bookie run --data ''", "the path is empty"),
    ("bookie format --data DIR --id ''", "is not a usable name"),
    ("ledger create --custom=novalue", "--custom"),
    ("ledger create --custom==x", "--custom"),
    ("ledger create --custom=a=1 --custom=a=2", "--custom"),
    ("demo no/such/file", "no/such/file"),
    # Shapes of ledgers
    ("ledger append --ensemble=3 --write-quorum=9", "ensemble size 3, write quorum 9"),
    ("ledger append --ensemble=2 --write-quorum=3", "do not fit"),
    ("ledger append --ensemble=3 --write-quorum=2 --ack-quorum=3", "do not fit"),
    ("ledger append --ensemble=3 --ack-quorum=0", "do not fit"),
    ("ledger append --digest=hmac-sha256", "needs a password"),
    # Options of which one says something else than another
    ("ledger append --delimiter=, --record-bytes=3", "--delimiter and --record-bytes are two ways"),
    ("ledger read 1 --raw --json", "--raw and --json are two ways"),
    ("ledger read 1 --first=5 --last=3", "--last 3 comes before --first 5"),
    ("ledger recover 1 --yes", "--yes is only valid with --accept-loss"),
    ("ledger salvage 1 --output=-", "--output takes a file"),
    ("bookie format --data=DIR --id=b --wait", "--wait is only valid with --replace"),
    ("bookie gc run", "name the bookies, or give --all"),
    ("bookie scrub b1 --all", "name the bookies, or give --all"),
    ("bookie repair --adopt=old-1 b1 b2", "to one other bookie: name exactly one"),
    ("bookie repair --adopt=old-1 --all", "to one other bookie: name exactly one"),
    ("bookie scrub b1 --timeout=0", "0.0 is not in the range"),
    ("bookie gc everything b1", "No such command"),
    # Hosts, ports and addresses
    ("bookie run --data=DIR --port=70000", "70000 is not in the range"),
    (
        "standalone --data=DIR --port=65534",
        "3 bookies starting at port 65534 would go past port 65535; use a lower",
    ),
    ("bookie run --data=DIR --advertise='b1 b2'", "without spaces"),
    ("bookie run --data=DIR --advertise=0.0.0.0", "every address"),
    ("bookie run --data=DIR --host='[::1]:3'", "has a port"),
    ("bookie run --data=DIR --host=http://x", "a URL"),
    ("standalone --data=DIR --host='[::1]:3'", "has a port"),
    ("standalone --data=DIR --host=http://x", "a URL"),
    ("standalone --data=DIR --http=9181", "is not HOST:PORT"),
    ("standalone --data=DIR --http=:9181", "is not HOST:PORT"),
    ("standalone --data=DIR --http=here:", "is not HOST:PORT"),
    ("standalone --data=DIR --http=here:x", "is not HOST:PORT"),
    ("standalone --data=DIR --http=here:70000", "is not HOST:PORT"),
    ("bookie run --data=DIR --traces=here", "is not a URL"),
    # What other machines reach
    ("standalone --data=DIR --http=0.0.0.0:1", "0.0.0.0 is reachable from other machines"),
    (
        "standalone --data=DIR --port=0 --http=0.0.0.0:0",
        "without certificates every client can read",
    ),
    ("console --http=0.0.0.0:0", "without certificates every client can read"),
    ("journal serve --name=x --rpc=0.0.0.0:0 --http=127.0.0.1:0", "--insecure"),
    # Journal nodes in bookies
    (
        "bookie run --data=DIR --journal-node=0.0.0.0:0",
        "--journal-node 0.0.0.0 is reachable from other machines",
    ),
    (
        "bookie run --data=DIR --journal-node=127.0.0.1:0 --journal-http=0.0.0.0:0",
        "--journal-http 0.0.0.0 is reachable",
    ),
    ("bookie run --data=DIR --journal-name=jn1", "--journal-name need --journal-node"),
    ("bookie run --data=DIR --journal-node=127.0.0.1:0 --journal-name=a/b", "is not a usable name"),
    # Logs
    ("log read x --first=3 --since=2026-01-01", "mutually exclusive"),
    ("log read x --first=3 --last=2", "--last 2 comes before --first 3"),
    ("log read x --raw --json", "--raw and --json are two ways to print records"),
    ("log tail x --new --first=3", "--new cannot be combined with --first"),
    ("log truncate x", "give POSITION, or --before TIME"),
    ("log truncate x 5 --before=2026-01-01", "give POSITION, or --before TIME"),
    ("log create x --age='7 parsecs'", "is not a duration such as"),
    ("log create x --bytes='10 GB'", "is not a size such as"),
    ("log create x --age=0s", "0.0 seconds are not a valid age"),
    ("log create x --cursor-silent=3d", "a limit on silence requires cursors that count"),
    ("log create x --cursor='a b'", "is not a usable name"),
    ("log append x --delimiter=, --record-bytes=3", "two ways to split the input"),
    # Journals
    ("journal show a/b", "is not a usable name"),
    ("journal show ns1 --acceptor=a= --acceptor=b", "is not NAME or NAME=URI"),
    ("journal show ns1 --acceptor=a --acceptor=a", "is given twice"),
    ("journal import ns1 missing", "does not exist"),
    ("journal import ns1 /usr --digest=hmac-sha256", "needs a password"),
    ("journal format ns1 --cluster-id=c", "Missing option '--namespace-id'"),
    (
        "journal format new --namespace-id=7 --cluster-id=c7 --layout-version=-99999999999",
        "is not in the range",
    ),
    (f"journal format new --namespace-id=7 --cluster-id=c7 --c-time={2**63}", "is not in the range"),
    (f"journal purge ns1 --before={2**63}", "is not in the range"),
    (f"journal tail ns1 --from={2**63}", "is not in the range"),
    ("journal recover ns1 --write-quorum=9", "do not fit"),
    ("journal recover ns1 --write-quorum=0", "do not fit"),
    ("journal recover ns1 --ensemble=99999999999999999999", "do not fit"),
)


@pytest.mark.parametrize(("typed", "why"), WRONG, ids=[typed for typed, _ in WRONG])
def test_what_cannot_be_meant_is_told_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, why: str
) -> None:
    monkeypatch.setenv("BOOKLEDGER_METADATA", f"sqlite://{tmp_path}/metadata.db")
    done = bookledger(*shlex.split(typed.replace("DIR", f"{tmp_path}/made")))
    assert (done.returncode, done.stdout) == (ExitCode.WRONG_USAGE, b""), done
    assert b"Traceback" not in done.stderr and why in " ".join(done.stderr.decode().split())
    assert not list(tmp_path.iterdir())
