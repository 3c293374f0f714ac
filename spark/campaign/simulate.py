"""The simulator's campaign as a Spark job: each task runs hundreds of seeds, and outcomes are written to Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from .seeds import SEED_SECONDS_MAX, layer_named, outcomes_of

SCHEMA = "seed bigint, violation string, seconds double, probes array<string>"


@dataclass(frozen=True, slots=True)
class Campaign:
    """Runs one layer (named as in `spark.campaign.seeds`) with the seeds from `first_seed` on, a fixed number of seeds
    per task."""

    layer: str
    first_seed: int
    seeds: int
    seeds_a_task: int
    seed_seconds_max: float = SEED_SECONDS_MAX

    @property
    def tasks(self) -> int:
        return -(-self.seeds // self.seeds_a_task)

    def seeds_of(self, task: int) -> range:
        """Returns the seeds of this task; tasks are counted from 0."""
        begin = task * self.seeds_a_task
        end = min(begin + self.seeds_a_task, self.seeds)
        return range(self.first_seed + begin, self.first_seed + end)


def outcomes(session: SparkSession, campaign: Campaign) -> DataFrame:
    """Returns one row per seed: its violation or null, its duration, and the rare paths that it took."""
    tasks = session.sparkContext.parallelize(range(campaign.tasks), campaign.tasks)
    return session.createDataFrame(tasks.flatMap(lambda task: run_task(campaign, task)), SCHEMA)


def run_task(campaign: Campaign, task: int) -> Iterator[Row]:
    """Runs one task."""
    for o in outcomes_of(campaign.layer, campaign.seeds_of(task), campaign.seed_seconds_max):
        yield Row(seed=o.seed, violation=o.violation, seconds=o.seconds, probes=list(o.probes))


def never_reached(found: DataFrame, campaign: Campaign) -> list[str]:
    """Returns the layer's rare paths that no seed took; empty if there were too few seeds to reach all paths."""
    layer = layer_named(campaign.layer)
    if not layer.probes or campaign.seeds < layer.seeds_that_reach_everything:
        return []
    rows = found.select(f.explode("probes").alias("probe")).distinct().collect()
    reached = {row["probe"] for row in rows}
    return [name for name in (str(probe.value) for probe in layer.probes) if name not in reached]


_LOST_TASK = re.compile(r"\bTask (\d+) in stage")


def seeds_lost(campaign: Campaign, said: str) -> range | None:
    """Returns the seeds of the task that made a job of `outcomes` fail, parsed from Spark's error message."""
    found = _LOST_TASK.search(said)
    return campaign.seeds_of(int(found[1])) if found else None
