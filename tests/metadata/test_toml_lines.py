"""On which line of a TOML file a key stands."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metadata.settings import settings_file
from metadata.settings.settings_file import Keys, lines_of

TEXT = '''\
# a comment
metadata = "sqlite:///x"   # and one behind a value

[limits]
polls_max = 7
"quoted key" = 1

  [bookie.run]  # a table in a table
port = 3181
dotted.key = 1
list = [
  1,
  2,  # ]
]
text = """
[no.table]
no_key = 1
"""
after = 1
[bookie]
read_threads = { inner = 4 }
[[many]]
x = 1
'''


def test_each_key_and_table_has_the_line_on_which_it_begins() -> None:
    found = lines_of(TEXT)
    assert found == {
        ("metadata",): 2,
        ("limits",): 4,
        ("limits", "polls_max"): 5,
        ("limits", "quoted key"): 6,
        ("bookie",): 8,
        ("bookie", "run"): 8,
        ("bookie", "run", "port"): 9,
        ("bookie", "run", "dotted"): 10,
        ("bookie", "run", "dotted", "key"): 10,
        ("bookie", "run", "list"): 11,
        ("bookie", "run", "text"): 15,
        ("bookie", "run", "after"): 19,
        ("bookie", "read_threads"): 21,
        ("bookie", "read_threads", "inner"): 21,
        ("many",): 22,
        ("many", "x"): 23,
    }


def test_lines_that_end_as_windows_ends_them_are_counted_alike() -> None:
    assert lines_of(TEXT.replace("\n", "\r\n")) == lines_of(TEXT)


def test_behind_a_value_of_too_many_lines_no_line_is_known() -> None:
    long = "a = 1\nb = [\n" + "1,\n" * settings_file.STATEMENT_LINES_MAX + "]\nc = 1\n"
    assert lines_of(long) == {("a",): 1}


NAMES = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=5)
VALUES = st.sampled_from(['"x"', "1", "[\n1,\n]", '"""\na = [\n"""', "{a = 1}", "true  # [x]"])


@st.composite
def files(draw: st.DrawFn) -> str:
    """TOML with tables, in which no key stands twice."""
    lines = []
    for table in draw(st.lists(NAMES, unique=True, max_size=4)):
        lines.append(draw(st.sampled_from([f"[{table}]", f"[t.{table}] # x", f"\n[ 't' . {table} ]"])))
        for name in draw(st.lists(NAMES, unique=True, max_size=4)):
            lines.append(f"{name} = {draw(VALUES)}")
            lines += draw(st.lists(st.sampled_from(["", "# [comment]", "   "]), max_size=2))
    return "\n".join(lines)


def every_key(content: Mapping[str, Any], path: Keys = ()) -> Iterator[Keys]:
    for key, value in content.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from every_key(value, (*path, key))


@given(files())
def test_every_key_has_a_line_and_the_file_up_to_there_does_not_have_it(text: str) -> None:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a table and a key of one name
        return
    found = lines_of(text)
    assert set(found) == set(every_key(content))
    lines = text.split("\n")
    for keys, line in found.items():
        assert keys not in set(every_key(tomllib.loads("\n".join(lines[: line - 1]))))
