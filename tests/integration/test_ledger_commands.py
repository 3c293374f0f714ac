"""`bookledger ledger` on real bookies: what it stores and what it prints."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bookie.wire import ENTRY_BYTES_MAX
from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, aio
from ledgers.ledger_access import NO_PASSWORD
from tests.support.command_line import bookledger, fails_with_one_line, lines, printed, succeeds, told
from tests.support.long_runs import first_then_long
from tests.support.secrets import password_file
from tests.support.stopping import feed, next_line, started


def test_lines_appended_are_read_back_listed_shown_and_deleted(meta: str) -> None:
    appended = told("ledger", "append", meta, stdin=lines(1000))
    ledger_id = str(appended["ledger_id"])
    assert appended["entries"] == 1000
    read = bookledger("ledger", "read", meta, ledger_id, "--first=998")
    assert read.stdout == b"998\tline 998\n999\tline 999\n"
    shown = told("ledger", "show", meta, ledger_id)
    assert (shown["state"], shown["last_entry"], len(shown["fragments"][0]["bookies"])) == ("closed", 999, 3)
    assert appended["ledger_id"] in [record["ledger_id"] for record in printed("ledger", "list", meta)]
    assert bookledger("ledger", "delete", "--yes", meta, ledger_id).returncode == 0
    assert fails_with_one_line("ledger", "read", meta, ledger_id) == f"there is no ledger {ledger_id}"


def test_of_an_open_ledger_show_and_list_tell_what_its_bookies_know(uri: str, meta: str) -> None:
    with LedgerClient(uri) as client, client.create_ledger() as writer:
        ledger_id = str(writer.ledger_id)
        writer.append_batch([b"x" * 100] * 10)
        writer.append(b"x" * 100)  # so many bookies know of the ten before it that it is seen
        only = ("--first", ledger_id, "--limit=1", meta)
        shown, listed = told("ledger", "show", meta, ledger_id), told("ledger", "list", *only)
        table = bookledger("ledger", "list", *only).stdout.decode().splitlines()
    for found in (shown, listed):
        assert found["last_add_confirmed"] in (9, 10) and found["writer_address"].startswith("127.0.0.1:")
        assert found["confirmed_bytes"] == 100 * (found["last_add_confirmed"] + 1)
        assert (found["last_entry"], found["length_bytes"]) == (None, None)
    cells = table[1].split()
    assert cells[:2] == [ledger_id, "open"] and cells[2] in ("9+", "10+"), table
    assert cells[3:5] in (["1000", "B+"], ["1.1", "KiB+"])
    assert any(cell.startswith("127.0.0.1:") for cell in cells), table  # one of its connections, a port each


def test_of_an_open_ledger_that_has_a_password_it_is_told_that_this_is_unknown(uri: str) -> None:
    with LedgerClient(uri) as client, client.create_ledger(password=b"secret") as writer:
        shown = bookledger("ledger", "show", str(writer.ledger_id), f"--metadata={uri}").stdout.decode()
    for name in ("last add confirmed", "confirmed bytes", "writer address"):
        assert re.search(rf"^{name} +unknown$", shown, re.MULTILINE), shown
    assert re.search("^why unknown +the ledger has a password, which is unknown here$", shown, re.MULTILINE)


def test_a_reserved_ledger_has_exactly_one_writer(meta: str) -> None:
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    assert bookledger("ledger", "append", meta, f"--ledger={ledger_id}", stdin=b"one\n").returncode == 0
    assert "has or had a writer" in fails_with_one_line(
        "ledger", "append", meta, f"--ledger={ledger_id}", stdin=b"two\n"
    )
    assert bookledger("ledger", "read", meta, ledger_id).stdout == b"0\tone\n"


def test_tail_follows_an_open_ledger_to_its_close(meta: str) -> None:
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    with (
        started("ledger", "append", meta, f"--ledger={ledger_id}") as appending,
        started("ledger", "tail", meta, ledger_id) as tailing,
    ):
        for n in range(5):
            feed(appending, f"entry {n}\n")
            assert next_line(tailing) == f"{n}\tentry {n}\n", "the last entry of an idle writer is seen"
        appending.communicate(timeout=30)
        assert tailing.communicate(timeout=30) == ("", "")
        assert (appending.returncode, tailing.returncode) == (0, 0)


def test_tail_with_a_timeout_ends(meta: str) -> None:
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    assert bookledger("ledger", "tail", meta, ledger_id, "--timeout=0").stdout == b""
    assert bookledger("ledger", "append", meta, f"--ledger={ledger_id}", stdin=b"one\ntwo\n").returncode == 0
    assert bookledger("ledger", "tail", meta, ledger_id, "--first=1", "--timeout=0").stdout == b"1\ttwo\n"


def test_what_read_prints_as_json_append_takes(uri: str, meta: str) -> None:
    entries = [b"", b"\x00\n\xff", "é".encode() * 1000, bytes(range(256))]
    with LedgerClient(uri) as client, client.create_ledger() as writer:
        for payload in entries:
            writer.append(payload)
    as_json = bookledger("ledger", "read", meta, str(writer.ledger_id), "--json").stdout
    copy = told("ledger", "append", meta, "--json-lines", stdin=as_json + b'{"payload":"text"}\n')
    with LedgerClient(uri) as client:
        found = [entry.payload for entry in client.open_ledger(copy["ledger_id"]).read()]
    assert found == [*entries, b"text"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"no json", "not valid JSON from character 1 on"),
        (b"[]", "an entry must be an object"),
        (b'{"payload": 1}', "an entry must be an object"),
        (b'{"payload": "x", "payload_base64": "eA=="}', "an entry must be an object"),
        (b'{"payload_base64": "?"}', "base64"),
        (b'{"payload": "\\ud800"}', "surrogates not allowed"),
        (b"\xff\xfe{}", "not valid UTF-8 from byte 1 on"),
    ],
)
def test_a_line_that_is_no_entry_is_told_by_its_number(meta: str, line: bytes, why: str) -> None:
    said = fails_with_one_line(
        "ledger", "append", meta, "--json-lines", stdin=b'{"payload":"good"}\n' + line + b"\n"
    )
    assert "line 2 of the input" in said and why in said


def test_a_file_that_is_read_into_is_there_only_when_it_is_whole(meta: str, tmp_path: Path) -> None:
    ledger_id = ""
    ledger_id = told("ledger", "append", meta, stdin=b"one\ntwo\n")["ledger_id"]
    file = tmp_path / "entries"
    fails_with_one_line("ledger", "read", meta, str(ledger_id), "--last=7", "-o", str(file))
    assert not list(tmp_path.iterdir())
    assert bookledger("ledger", "read", meta, str(ledger_id), "--raw", "-o", str(file)).stdout == b""
    assert [path.name for path in tmp_path.iterdir()] == ["entries"]
    assert file.read_bytes() == b"onetwo"
    assert "already exists" in fails_with_one_line("ledger", "read", meta, str(ledger_id), "-o", str(file))
    assert "no directory" in fails_with_one_line("ledger", "read", meta, str(ledger_id), "-o", f"{file}/x")


def test_a_directory_gets_a_file_for_each_entry_and_an_interrupted_read_goes_on_there(
    meta: str, tmp_path: Path
) -> None:
    entries = tmp_path / "entries"
    appended = told("ledger", "append", meta, "--record-bytes=3", stdin=b"one\0\n\xffend")
    command = ("ledger", "read", meta, str(appended["ledger_id"]), f"--output={entries}")
    entries.mkdir()
    (entries / f"{1:019}").write_bytes(b"\0\n\xff")  # of an earlier run
    done = bookledger(*command)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    found = {path.name: path.read_bytes() for path in entries.iterdir()}
    assert found == {f"{0:019}": b"one", f"{1:019}": b"\0\n\xff", f"{2:019}": b"end"}
    (entries / f"{1:019}").write_bytes(b"mine")
    assert f"{1:019} has different content" in fails_with_one_line(*command)
    assert (entries / f"{1:019}").read_bytes() == b"mine"
    assert sorted(path.name for path in entries.iterdir()) == sorted(found)
    assert bookledger(*command, "--json").returncode == 2


def test_a_tail_ends_after_so_many_entries(uri: str, meta: str) -> None:
    with LedgerClient(uri) as client, client.create_ledger() as writer:
        for n in range(5):
            writer.append(b"%d" % n)
        command = ("ledger", "tail", meta, str(writer.ledger_id), "--first=1")
        assert bookledger(*command, "--count=2").stdout == b"1\t1\n2\t2\n", "it is open, and not waited for"
        assert bookledger(*command, "--count=1", "--raw").stdout == b"1"
    assert bookledger(*command, "--count=9").stdout == b"1\t1\n2\t2\n3\t3\n4\t4\n", "its end comes before"


def test_records_end_with_any_delimiter(uri: str, meta: str) -> None:
    appended = told("ledger", "append", meta, r"--delimiter=\0", stdin=b"a\nb\0\0c")
    with LedgerClient(uri) as client:
        assert [entry.payload for entry in client.open_ledger(appended["ledger_id"])] == [b"a\nb", b"", b"c"]


def test_an_append_notices_that_its_ledger_was_recovered(meta: str) -> None:
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    with started("ledger", "append", meta, f"--ledger={ledger_id}") as appending:
        feed(appending, "before\n")
        while bookledger("ledger", "read", meta, ledger_id).stdout != b"0\tbefore\n":
            pass
        assert bookledger("ledger", "recover", meta, ledger_id).returncode == 0
        with contextlib.suppress(BrokenPipeError):
            while appending.poll() is None:
                feed(appending, "after\n")
        assert "has been fenced" in appending.communicate(timeout=30)[1]
        assert appending.returncode == 1


def test_an_append_whose_writer_has_failed_ends_though_its_pipe_stays_open(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    settings = tmp_path / "bookledger.toml"
    settings.write_text("[client]\nappend_seconds_max = 1\nappend_quorum_seconds_max = 2\n")
    with (
        bookie_processes(3, tmp_path, uri) as bookies,
        started(f"--config={settings}", "ledger", "append", f"--metadata={uri}") as appending,
    ):
        feed(appending, "before\n")
        while bookledger("ledger", "read", f"--metadata={uri}", "1").stdout != b"0\tbefore\n":
            pass
        for bookie in bookies[:2]:
            bookie.kill()
        feed(appending, "after\n")
        assert appending.wait(60) == 1, "nothing more comes, and the pipe is open"
        said = appending.communicate()[1].splitlines()[-1]
        assert "not enough bookies for ledger 1" in said
        assert "its last confirmed entry is 0; `bookledger ledger recover 1` finds its end" in said


def test_recover_closes_a_ledger_whose_writer_is_gone(meta: str) -> None:
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    recovered = told("ledger", "recover", meta, ledger_id)
    assert (recovered["state"], recovered["last_entry"]) == ("closed", -1)
    again = told("ledger", "recover", meta, ledger_id)
    assert again["last_entry"] == -1


def test_a_shape_for_which_there_are_too_few_bookies_is_refused_and_no_ledger_is_made(meta: str) -> None:
    before = bookledger("ledger", "list", "--json", meta).stdout
    line = fails_with_one_line("ledger", "append", meta, "--ensemble=5", stdin=b"x\n")
    assert line.startswith("not enough bookies for a new ledger")
    assert bookledger("ledger", "list", "--json", meta).stdout == before


def test_an_oversized_record_is_named_and_what_was_stored_before_it_is_told(meta: str) -> None:
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    oversized = lines(2) + bytes(ENTRY_BYTES_MAX + 1) + b"\nnever read\n"
    line = fails_with_one_line("ledger", "append", meta, f"--ledger={ledger_id}", stdin=oversized)
    assert line == (
        "record 3 of the input: an entry of 4194305 bytes is over the limit of 4194304 bytes; split it; "
        f"ledger {ledger_id} is closed; its last entry is 1; record 3 of the input goes to a new ledger"
    )
    assert bookledger("ledger", "read", meta, ledger_id).stdout == b"0\tline 0\n1\tline 1\n"


def test_an_append_of_nothing_but_an_oversized_record_leaves_an_empty_ledger_and_says_so(meta: str) -> None:
    line = fails_with_one_line("ledger", "append", meta, stdin=bytes(ENTRY_BYTES_MAX + 1))
    assert line.endswith("is closed and empty; record 1 of the input goes to a new ledger")


def test_an_entry_of_exactly_the_limit_is_stored_without_its_newline(meta: str) -> None:
    largest = b"x" * ENTRY_BYTES_MAX
    appended = told("ledger", "append", meta, stdin=largest + b"\n\n")
    assert (appended["entries"], appended["bytes"]) == (2, ENTRY_BYTES_MAX)
    read = bookledger("ledger", "read", "--raw", meta, str(appended["ledger_id"]))
    assert read.stdout == largest


def test_records_of_a_size_are_cut_from_a_file(meta: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abcdefgh")
    appended = told("ledger", "append", meta, "--record-bytes=3", str(tmp_path / "file"))
    assert bookledger("ledger", "read", meta, str(appended["ledger_id"])).stdout == b"0\tabc\n1\tdef\n2\tgh\n"


def test_entries_are_printed_as_json_with_their_bytes_in_base64(meta: str) -> None:
    appended = told("ledger", "append", meta, stdin=b"\xff\x00\n")
    for command in ("read", "tail"):
        said = told("ledger", command, meta, str(appended["ledger_id"]))
        assert (said["entry_id"], base64.b64decode(said["payload_base64"])) == (0, b"\xff\x00")


def test_custom_metadata_is_kept_and_shown(meta: str) -> None:
    ledger_id = (
        bookledger("ledger", "create", meta, "--custom=owner=ann", "--custom=note=a=b")
        .stdout.decode()
        .strip()
    )
    shown = bookledger("ledger", "show", meta, ledger_id).stdout.decode()
    assert "custom note=a=b\ncustom owner=ann\n" in shown
    said = told("ledger", "show", meta, ledger_id)
    found = {name: base64.b64decode(value) for name, value in said["custom_metadata"].items()}
    assert found == {"owner": b"ann", "note": b"a=b"}
    for wanted, is_listed in (
        (["owner=ann"], True),
        (["owner=ann", "note=a=b"], True),
        (["owner"], True),
        (["owner=ann", "note=c"], False),
        (["team"], False),
    ):
        listing = printed("ledger", "list", meta, *(f"--custom={pair}" for pair in wanted))
        ids = {row["ledger_id"] for row in listing}
        assert (int(ledger_id) in ids) is is_listed, wanted


def test_ids_are_printed_as_they_are_typed(meta: str, tmp_path: Path) -> None:
    """What `show` prints can be given to the next command: no separators, whatever the size."""
    (tmp_path / "many").write_bytes(b"\n" * 12_345)
    appended = bookledger("ledger", "append", meta, str(tmp_path / "many")).stdout.decode()
    assert "entries    12345\n" in appended
    ledger_id = appended.split()[2]
    for shown in (bookledger("ledger", "show", meta, ledger_id), bookledger("ledger", "list", meta)):
        assert b"12344" in shown.stdout
        assert b"12,344" not in shown.stdout


def test_the_newest_ledgers_come_first_and_a_table_fits_eighty_columns(meta: str) -> None:
    for n in range(3):
        bookledger("ledger", "create", meta, f"--custom=topic=orders{n}", f"--custom=only=newest{n}")
    first, second = printed("ledger", "list", meta, "--newest", "--limit=2")
    assert first["ledger_id"] > second["ledger_id"] and first["fragment_count"] == 1
    assert base64.b64decode(first["custom_metadata"]["topic"]) == b"orders2"
    part = bookledger("ledger", "list", meta, "--custom=only~newest1").stdout.decode()
    head, row, total = part.splitlines()
    assert head.split()[:3] == ["ledger", "state", "last"] and "topic=orders1" in row
    assert len(row.partition("only=")[0]) <= 80 and total.startswith("1 ledger, 1 not closed")


# --- passwords


@pytest.mark.parametrize("digest", first_then_long(["crc32c", "hmac-sha256"]))
def test_a_password_comes_from_a_file_and_opens_its_ledger_alone(
    meta: str, tmp_path: Path, digest: str
) -> None:
    password_file(tmp_path / "right", b"s3cret \xff\n")
    password_file(tmp_path / "same", b"s3cret \xff")
    password_file(tmp_path / "wrong", b"s3cret\n")
    right, same, wrong = (f"--password-file={tmp_path}/{name}" for name in ("right", "same", "wrong"))
    created = bookledger("ledger", "create", meta, right, f"--digest={digest}")
    ledger_id = created.stdout.decode().strip()
    said = told("ledger", "show", meta, ledger_id)
    assert said["digest"] == digest
    none_given = f"ledger {ledger_id}: {NO_PASSWORD}"
    refusal = f"the password does not match ledger {ledger_id}"
    succeeds("ledger", "append", meta, f"--ledger={ledger_id}", same, stdin=b"one\n")
    for command in ("read", "tail", "recover"):
        assert bookledger("ledger", command, meta, ledger_id, right).returncode == 0
        assert fails_with_one_line("ledger", command, meta, ledger_id) == none_given
        assert fails_with_one_line("ledger", command, meta, ledger_id, wrong) == refusal


def test_an_append_needs_the_password_that_the_ledger_was_created_with(meta: str, tmp_path: Path) -> None:
    password_file(tmp_path / "right", b"right\n")
    password_file(tmp_path / "wrong", b"wrong\n")
    for given, why in (
        ([], f"ledger {{}}: {NO_PASSWORD}"),
        ([f"--password-file={tmp_path}/wrong"], "the password does not match ledger {}"),
    ):
        created = bookledger("ledger", "create", meta, f"--password-file={tmp_path}/right")
        ledger_id = created.stdout.decode().strip()
        append = ("ledger", "append", meta, f"--ledger={ledger_id}", *given)
        assert fails_with_one_line(*append, stdin=b"x\n") == why.format(ledger_id)


def test_a_password_file_that_is_none_or_that_others_can_read_is_wrong_usage(
    meta: str, tmp_path: Path
) -> None:
    password_file(tmp_path / "empty", b"\n")
    password_file(tmp_path / "read by all", b"secret\n").chmod(0o644)
    refusals = {
        "empty": b"holds no password",
        "missing": b"does not exist",
        "read by all": b"has mode 0644, so others can read it: chmod 600",
    }
    for name, why in refusals.items():
        done = bookledger("ledger", "create", meta, f"--password-file={tmp_path / name}")
        assert done.returncode == 2
        assert why in done.stderr


# --- options that do not go together


@pytest.mark.parametrize("option", ["--ensemble=3", "--write-quorum=2", "--digest=crc32c", "--custom=a=b"])
def test_what_was_settled_when_a_ledger_was_made_is_not_asked_for_again(meta: str, option: str) -> None:
    ledger_id = bookledger("ledger", "create", meta).stdout.decode().strip()
    append = ("ledger", "append", meta, f"--ledger={ledger_id}")
    done = bookledger(*append, option, stdin=b"x\n")
    assert done.returncode == 2
    assert b"is for a new ledger" in done.stderr
    assert bookledger(*append, stdin=b"x\n").returncode == 0, "it was not claimed"


def test_when_a_ledger_was_made_and_closed_is_shown_and_asked_for(meta: str) -> None:
    before = datetime.now(UTC)
    ledger_id = told("ledger", "append", meta, "--ensemble=1", stdin=b"x\n")["ledger_id"]
    shown = told("ledger", "show", str(ledger_id), meta)
    made, closed = (datetime.fromisoformat(shown[name]) for name in ("created_at", "closed_at"))
    assert before - timedelta(seconds=1) <= made <= closed <= datetime.now(UTC) + timedelta(seconds=1)

    def listed(*options: str) -> list[int]:
        return [row["ledger_id"] for row in printed("ledger", "list", meta, *options)]

    later = (closed + timedelta(seconds=1)).isoformat()
    assert ledger_id in listed(f"--since={before.isoformat()}", f"--until={later}")
    assert ledger_id not in listed(f"--since={later}")
    assert ledger_id not in listed(f"--until={(made - timedelta(seconds=1)).isoformat()}")


def test_a_reader_knows_when_its_ledger_was_created_and_closed(uri: str) -> None:
    with LedgerClient(uri) as client, client.create_ledger(ensemble_size=1) as writer:
        follower = client.open_ledger(writer.ledger_id, recovery=False)
        assert follower.created_at == writer.record.created_at is not None
        assert follower.closed_at is None
        writer.close()
        assert list(follower.tail()) == []
        assert follower.closed_at == writer.record.closed_at is not None

    async def main() -> bool:
        async with aio.LedgerClient(uri) as client:
            reader = await client.open_ledger(writer.ledger_id)
            return (reader.created_at, reader.closed_at) == (follower.created_at, follower.closed_at)

    assert asyncio.run(main())


def test_a_reader_is_what_it_reads(uri: str) -> None:
    with LedgerClient(uri) as client, client.create_ledger(ensemble_size=1) as writer:
        writer.append_batch([b"a", b"b"])
        writer.close()
        assert [entry.payload for entry in client.open_ledger(writer.ledger_id)] == [b"a", b"b"]

    async def main() -> list[bytes]:
        async with aio.LedgerClient(uri) as client:
            return [entry.payload async for entry in await client.open_ledger(writer.ledger_id)]

    assert asyncio.run(main()) == [b"a", b"b"]
