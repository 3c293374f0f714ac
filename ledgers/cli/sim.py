"""`bookledger sim`: the simulator's campaign as Spark tasks."""

from __future__ import annotations

import secrets
import time

import click

from ledgers.errors import LedgerError

from .options import json_option
from .output import print_record
from .replay import HOW_TO_INSTALL, in_one_line, pairs, quiet_config

LAYERS = {
    "cores": "tests.simulation.cores:LAYER",
    "log": "tests.simulation.wet.__main__:LAYER",
    "shells": "tests.simulation.virtual.__main__:LAYER",
    "upkeep": "tests.simulation.upkeep.__main__:LAYER",
    "journals": "tests.simulation.journals.__main__:LAYER",
}
"""The simulator comes with a checkout, beside the tests; executors get it shipped."""

FIRST_SEED_MAX = 10**9
FAILURES_SHOWN_MAX = 10


@click.command()
@click.option(
    "--spark", "master", default="local[*]", show_default=True, metavar="MASTER", help="Any master."
)
@click.option("--seeds", default=10_000, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--first-seed", type=click.IntRange(0), help="Where to begin [anywhere].")
@click.option("--layer", default="cores", show_default=True, type=click.Choice(list(LAYERS)))
@click.option("--seeds-a-task", default=300, show_default=True, type=click.IntRange(1))
@click.option("--conf", metavar="KEY=VALUE", multiple=True, help="A setting of Spark's.")
@click.option(
    "--output", required=True, metavar="DIR", help="Where the outcomes go, as Parquet: a new directory."
)
@json_option
def sim(
    master: str,
    seeds: int,
    first_seed: int | None,
    layer: str,
    seeds_a_task: int,
    conf: tuple[str, ...],
    output: str,
    as_json: bool,
) -> None:
    """Run the simulator's campaign as Spark tasks; exit code 1 if a seed broke a promise."""
    first = secrets.randbelow(FIRST_SEED_MAX) if first_seed is None else first_seed
    began = time.monotonic()
    failed, violations, done = _run(master, pairs(conf, "--conf"), layer, first, seeds, seeds_a_task, output)
    seconds = time.monotonic() - began
    for seed, why in failed:
        click.echo(f"seed {seed}: {why}\n  repeat it with: make sim LAYER={layer} SEED={seed}", err=True)
    print_record(
        {
            "layer": layer,
            "first_seed": first,
            "seeds": done,
            "violations": violations,
            "seconds": round(seconds, 1),
            "seeds_per_second": round(done / seconds, 1),
            "output": output,
        },
        as_json=as_json,
    )
    if violations or done != seeds:
        raise LedgerError(f"{violations} of {done} seeds broke a promise; all outcomes are in {output}")


def _run(
    master: str, conf: dict[str, str], layer: str, first: int, seeds: int, seeds_a_task: int, output: str
) -> tuple[list[tuple[int, str]], int, int]:
    """The first failures, how many there are, and how many seeds were run."""
    try:
        from pyspark.errors import PySparkException
    except ImportError:
        raise LedgerError(HOW_TO_INSTALL) from None

    from spark.session import session_on
    from spark.simulate import Campaign, layer_named, outcomes

    layer_named(LAYERS[layer])  # an import that fails is told before Spark has started
    session = session_on(
        master, "bookledger sim", config=quiet_config(master) | conf, extra_packages=("tests",)
    )
    try:
        session.sparkContext.setLogLevel("OFF")
        outcomes(session, Campaign(LAYERS[layer], first, seeds, seeds_a_task)).write.parquet(output)
        found = session.read.parquet(output)
        broken = found.where("violation is not null").orderBy("seed")
        shown = [(row["seed"], row["violation"]) for row in broken.limit(FAILURES_SHOWN_MAX).collect()]
        return shown, broken.count(), found.count()
    except PySparkException as error:
        raise in_one_line(error) from error
    finally:
        session.stop()
