"""`bookledger bookie` on the files of a stopped bookie: check, dump, rebuild-index."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from .options import json_option
from .output import print_json, print_record

data_option = click.option(
    "--data", type=click.Path(path_type=Path), required=True, help="The stopped bookie's data directory."
)


@click.command()
@data_option
@json_option
def check(data: Path, as_json: bool) -> None:
    """Verify a stopped bookie's directory: every record, the index against the log. Changes nothing.

    Exits with 1 when something is wrong, naming file and offset.
    """
    from bookie.check import check as check_directory

    findings = asdict(check_directory(data))
    problems, notes = findings.pop("problems"), findings.pop("notes")
    if as_json:
        print_json({**findings, "problems": problems, "notes": notes})
    else:
        print_record(findings, as_json=False)
        for title, found in (("note", notes), ("PROBLEM", problems)):
            for one in found:
                click.echo(f"{title}: {one['file']} at offset {one['offset']}: {one['what']}")
    if problems:
        raise click.exceptions.Exit(1)
    if not as_json:
        click.echo("nothing is wrong")


@click.command()
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@json_option
def dump(path: Path, as_json: bool) -> None:
    """Print a bookie's cookie.json, a segment of its log, or its index directory, a line for each thing in it."""
    from bookie.dump import dump as lines_of

    for line in lines_of(path):
        if as_json:
            print_json(line)
        else:
            click.echo(" ".join(f"{name}={value}" for name, value in line.items()))


@click.command("rebuild-index")
@data_option
@json_option
def rebuild_index(data: Path, as_json: bool) -> None:
    """Make a stopped bookie's index anew from its log, which has everything."""
    from bookie.rebuild import rebuild_index as rebuild

    print_record({"frames": rebuild(data), "data": str(data)}, as_json=as_json)
