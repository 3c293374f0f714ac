"""`ledger recover --accept-loss`, and what commands say of ledgers that cannot be read, recovered or deleted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli.processes import BookieProcess
from ledgers import LedgerClient, LedgerError, LedgerState
from metadata import opened_store
from metadata.healing import operator_requests
from metadata.healing.operator_requests import Order, OrderKind
from qjm_compat.acceptor.acceptor_ledgers import ACCEPTOR_OF_LEDGER, JOURNAL_OF_LEDGER
from tests.integration.test_salvaged_ledgers import append, away, cluster, confirmed_through
from tests.support.aio import run
from tests.support.cluster_status import why_not_whole
from tests.support.command_line import bookledger, fails_with_one_line, told
from tests.support.ledgers import crash
from tests.support.processes import hung
from tests.support.stopping import SECONDS_MAX, started
from tests.support.waiting import until

IMPATIENT = "[client]\nread_seconds_max = 1\n"


@contextmanager
def lost_quorum(
    tmp_path: Path, labels: Mapping[str, bytes] | None = None
) -> Iterator[tuple[str, int, dict[str, BookieProcess]]]:
    """A ledger of five entries that nobody closed, two of whose three bookies are dead."""
    with cluster(tmp_path, 3) as (uri, bookies):
        with LedgerClient(uri) as client:
            writer = client.create_ledger(custom_metadata=labels)
            append(writer, *range(5))
            confirmed_through(client, writer, 4, min(bookies))
            crash(writer)
        away(uri, *list(bookies.values())[1:])
        yield uri, writer.ledger_id, bookies


def give_up(uri: str, *names: str) -> None:
    async def work() -> None:
        async with opened_store(uri) as store:
            for name in names:
                await operator_requests.give(store, Order(name, OrderKind.GIVEN_UP, 0))

    run(work())


def state_of(uri: str, ledger_id: int) -> LedgerState:
    with LedgerClient(uri) as client:
        return client.describe_ledger(ledger_id).state


def recovering(
    uri: str, ledger_id: int, *options: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return bookledger(
        "ledger", "recover", f"--metadata={uri}", str(ledger_id), "--accept-loss", *options, stdin=stdin
    )


def shown(uri: str, ledger_id: int) -> dict[str, Any]:
    found: dict[str, Any] = told("ledger", "show", f"--metadata={uri}", str(ledger_id))
    return found


def test_the_loss_is_accepted_after_a_question_and_shown_for_ever(tmp_path: Path) -> None:
    with lost_quorum(tmp_path) as (uri, ledger_id, bookies):
        _, second, third = sorted(bookies)
        give_up(uri, third)
        for answer, code, said in (
            (b"n\n", 1, b"the answer was no, and nothing was done"),
            (b"", 2, b"there is no answer on standard input, and nothing was done: give --yes"),
        ):
            done = recovering(uri, ledger_id, stdin=answer)
            assert done.returncode == code and said in done.stderr, done
            assert state_of(uri, ledger_id) is LedgerState.OPEN
        asked = done.stderr.decode()
        assert "make sure that the ledger's writer has ended" in asked
        assert "its bookies' answers about entry 5: " in asked
        assert f"ledger {ledger_id} is confirmed up to entry 4, as far as it can be proven" in asked
        assert f"{second} is only away: it is not registered" in asked
        assert f"{third} is lost: it was given up" in asked
        assert f"close ledger {ledger_id} at entry 4, for good? [y/N]" in asked

        log = tmp_path / "audit.log"
        done = bookledger(
            f"--audit-log={log}",
            *("ledger", "recover", f"--metadata={uri}", str(ledger_id), "--accept-loss", "--json"),
            stdin=b"y\n",
        )
        assert done.returncode == 0, done
        closed = json.loads(done.stdout)
        assert (closed["state"], closed["last_entry"]) == ("closed", 4)
        loss = shown(uri, ledger_id)["accepted_loss"]
        assert loss == closed["accepted_loss"]
        assert (loss["last_entry"], loss["proven_through"], loss["given_up"]) == (4, 4, [second, third])
        assert loss["by"] and loss["at"].endswith("Z")
        (line,) = [json.loads(one) for one in log.read_text().splitlines()]
        assert line["what"] == "accept loss" and line["who"] == loss["by"]
        assert (line["ledger_id"], line["last_entry"], line["proven_through"]) == (ledger_id, 4, 4)
        assert line["given_up"] == f"{second}, {third}"

        text = bookledger("ledger", "show", f"--metadata={uri}", str(ledger_id)).stdout.decode()
        assert f"accepted loss.given up        {second}, {third}\n" in text
        assert recovering(uri, ledger_id).returncode == 0  # it is closed: nothing is asked, nothing changed
        assert shown(uri, ledger_id)["accepted_loss"] == loss
        entries = bookledger("ledger", "read", f"--metadata={uri}", str(ledger_id)).stdout
        assert entries.splitlines()[-1] == b"4\tentry 4"


def test_whoever_is_asked_while_another_closes_it_is_told_so(tmp_path: Path) -> None:
    """Two operators: the first is asked; meanwhile a second accepts less, or a recovery finds the end."""
    with cluster(tmp_path, 3) as (uri, bookies):
        first, second, third = [bookies[name] for name in sorted(bookies)]
        with LedgerClient(uri) as client:
            recovered, accepted = client.create_ledger(), client.create_ledger()
            for writer in (recovered, accepted):
                append(writer, 0)
                # Two have acknowledged it; the third may not have it yet.
                confirmed_through(client, writer, 0, third.bookie_id)
            away(uri, third)
            for writer in (recovered, accepted):
                append(writer, 1, 2)
                crash(writer)
        away(uri, second)
        with (
            being_asked(uri, recovered.ledger_id) as answer_first,
            being_asked(uri, accepted.ledger_id) as answer_second,
        ):
            second.start()
            assert (
                bookledger("ledger", "recover", f"--metadata={uri}", str(recovered.ledger_id)).returncode == 0
            )
            away(uri, first, second)
            third.start()
            assert recovering(uri, accepted.ledger_id, "--yes").returncode == 0
            code, said = answer_first("y\n")
            assert (
                code == 0 and "nothing was lost: the ledger was recovered and closed in the meantime" in said
            )
            code, said = answer_second("y\n")
            assert (
                code == 0
                and "closed it in the meantime, at entry 0 and not at 2; `bookledger ledger salvage" in said
            )
        assert (
            shown(uri, recovered.ledger_id)["last_entry"],
            shown(uri, accepted.ledger_id)["last_entry"],
        ) == (2, 0)


@contextmanager
def being_asked(uri: str, ledger_id: int) -> Iterator[Callable[[str], tuple[int, str]]]:
    """`ledger recover --accept-loss` before its question is answered. Gives what answers it: exit code, and stderr."""
    with started("ledger", "recover", f"--metadata={uri}", str(ledger_id), "--accept-loss") as child:
        assert child.stderr is not None
        asked = ""
        while "[y/N]" not in asked:
            letter = child.stderr.read(1)
            assert letter, asked
            asked += letter

        def answered(answer: str) -> tuple[int, str]:
            _, said = child.communicate(answer, timeout=SECONDS_MAX)
            return child.returncode, said

        yield answered


def test_it_is_refused_where_it_is_not_needed_and_where_a_bookie_lives_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(IMPATIENT)
    with cluster(tmp_path, 3, lease_seconds=60) as (uri, bookies):
        with LedgerClient(uri) as client:
            writer = client.create_ledger()
            append(writer, 0)
            crash(writer)
        line = fails_with_one_line(
            *("ledger", "recover", f"--metadata={uri}", str(writer.ledger_id), "--accept-loss", "--yes")
        )
        assert line.endswith(f"use `bookledger ledger recover {writer.ledger_id}`")
        silent = list(bookies.values())[1:]
        with hung(silent):
            line = fails_with_one_line(
                f"--config={tmp_path}/settings.toml",
                *("ledger", "recover", f"--metadata={uri}", str(writer.ledger_id), "--accept-loss", "--yes"),
            )
        for bookie in silent:
            assert f"{bookie.bookie_id}: it did not answer within 1 s" in line
        assert line.endswith("Find out why they do not answer, or stop them")
        assert state_of(uri, writer.ledger_id) is LedgerState.OPEN


def test_bookies_that_hung_for_longer_than_their_leases_fence_what_they_lost_when_they_go_on(
    tmp_path: Path,
) -> None:
    """Nobody can tell them from dead ones. What they take from their writer's connections then is no part of it."""
    with cluster(tmp_path, 3) as (uri, bookies), LedgerClient(uri) as client:
        writer = client.create_ledger()
        append(writer, *range(3))
        with hung(list(bookies.values())[1:]):
            under_way = writer.append_async(b"entry 3")
            until(lambda: len(client.list_bookies()) == 1)
            assert recovering(uri, writer.ledger_id, "--yes").returncode == 0
            end = shown(uri, writer.ledger_id)["last_entry"]
            before = bookledger("ledger", "read", f"--metadata={uri}", str(writer.ledger_id)).stdout
        until(lambda: shown(uri, writer.ledger_id)["accepted_loss"]["to_fence"] == [])
        with pytest.raises(LedgerError):
            writer.append(b"late")
        assert end == 3 or under_way.exception() is not None, "confirmed, and given up"
        assert len(before.splitlines()) == end + 1
        assert bookledger("ledger", "read", f"--metadata={uri}", str(writer.ledger_id)).stdout == before


OF_A_JOURNAL = {JOURNAL_OF_LEDGER: b"ns1", ACCEPTOR_OF_LEDGER: b"jn2"}


def test_what_cannot_be_recovered_says_whom_to_bring_back_and_what_to_do_without_them(tmp_path: Path) -> None:
    """And of a journal's segment, whose it is. Nobody is asked to bring back those who were given up."""
    with lost_quorum(tmp_path, OF_A_JOURNAL) as (uri, ledger_id, bookies):
        _, second, third = sorted(bookies)
        said = recovering(uri, ledger_id, stdin=b"n\n").stderr.decode()
        assert "it is a segment of journal 'ns1' at the acceptor 'jn2': edits that this acceptor has" in said
        line = fails_with_one_line("ledger", "recover", f"--metadata={uri}", str(ledger_id))
        assert f"bring back {second}, {third}, and try again; if they will not come back, `bookledger" in line
        assert f"ledger recover --accept-loss {ledger_id}` closes it where the survivors end" in line
        give_up(uri, second, third)
        line = fails_with_one_line("ledger", "recover", f"--metadata={uri}", str(ledger_id))
        assert f"lost for good: {second} (it was given up), {third} (it was given up); `bookledger" in line
        assert "bring back" not in line
        line = fails_with_one_line("ledger", "delete", f"--metadata={uri}", "--yes", str(ledger_id))
        assert f"`bookledger ledger salvage {ledger_id} --output FILE` saves the entries that exist" in line
        assert f"then `bookledger ledger delete --force {ledger_id}` deletes it as it is" in line
        assert state_of(uri, ledger_id) is LedgerState.IN_RECOVERY

        until(lambda: f"given up, but ledgers still refer to it: {second}, {third}" in why_not_whole(uri))
        assert "not registered" not in why_not_whole(uri)
        done = bookledger("ledger", "delete", f"--metadata={uri}", "--yes", "--force", str(ledger_id))
        assert done.returncode == 0, done


@pytest.mark.parametrize("is_striped", [False, True])
def test_what_was_given_up_can_be_salvaged_later(tmp_path: Path, is_striped: bool) -> None:
    """From the bookie that comes back, and past the end that was accepted."""
    quorum = 2 if is_striped else 3
    with cluster(tmp_path, 3) as (uri, bookies):
        with LedgerClient(uri) as client:
            writer = client.create_ledger(write_quorum=quorum, ack_quorum=2)
            append(writer, *range(6))
            crash(writer)
        _, second, third = sorted(bookies)
        away(uri, bookies[second], bookies[third])
        assert recovering(uri, writer.ledger_id, "--yes").returncode == 0
        end = shown(uri, writer.ledger_id)["last_entry"]
        bookies[second].start()
        bookies[third].start()
        output = tmp_path / "out"
        done = bookledger(
            *("ledger", "salvage", f"--metadata={uri}", str(writer.ledger_id), f"--output={output}"),
            "--past-the-end",
        )
        found = [json.loads(line) for line in output.read_text().splitlines()]
        assert [entry["entry_id"] for entry in found] == list(range(6))
        assert [entry["proven"] for entry in found] == [n <= end for n in range(6)]
        assert done.returncode == (0 if end == 5 else 3), done
