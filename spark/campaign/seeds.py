"""Seeds of the simulator, each in a process that may die or hang without taking the other seeds along.

A layer of the simulator is named `MODULE:ATTRIBUTE`, and is anything with `run(seed, tracing)` that returns an
outcome with `probes`, or raises. Executors import it by that name.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Self

SEED_SECONDS_MAX = 60.0
"""A seed that takes longer is stopped and has failed, unless the campaign says otherwise."""

END_SECONDS_MAX = 2.0
"""How long a process that tells nothing more may take to end."""

VIOLATION_CHARS_MAX = 10_000

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class SeedOutcome:
    """What a seed ended with: its violation, or None; how long it took; the rare paths it took."""

    seed: int
    violation: str | None
    seconds: float
    probes: tuple[str, ...] = ()


def outcomes_of(
    layer_name: str, seeds: range, seconds_max: float = SEED_SECONDS_MAX
) -> Iterator[SeedOutcome]:
    """One outcome for each seed, in order, whatever a seed raises and however its process ends.

    A seed that is the end of its process, or gives no outcome within `seconds_max`, has that for its violation; the
    seeds after it run in a new process.
    """
    layer = layer_named(layer_name)
    left = seeds
    while left:
        with _Runner(layer, left) as runner:
            while left and runner.is_alive:
                outcome = runner.outcome_of(left[0], seconds_max)
                left = left[1:]
                yield outcome


def layer_named(name: str) -> Any:
    """Raises ValueError where the simulator is not there: it comes with a checkout, not with the wheel."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the simulator is there, and something that it needs is not
        raise ValueError(f"{module} cannot be imported ({error}): run this from a checkout") from error


class _Runner:
    """A child process that runs seeds one after the other, and tells each outcome."""

    def __init__(self, layer: Any, seeds: range) -> None:
        context = get_context("fork")  # the layer is imported here already, in every child alike
        self._told, tells = context.Pipe(duplex=False)
        self._process = context.Process(target=_run_all, args=(layer, seeds, tells, os.getpid()), daemon=True)
        self._process.start()
        tells.close()  # or the child's end would not be seen
        self.is_alive = True

    def outcome_of(self, seed: int, seconds_max: float) -> SeedOutcome:
        """Of the next seed: this one. Ends the child where it does not give one in time."""
        began = time.monotonic()
        try:
            if self._told.poll(seconds_max):
                outcome = self._told.recv()
                assert isinstance(outcome, SeedOutcome) and outcome.seed == seed
                return outcome
            violation = f"gave no outcome within {seconds_max:g} seconds"
        except (EOFError, OSError):
            self._wait_for_end()
            violation = f"ended its process, {_how(self._process.exitcode)}"
        self.end()
        return SeedOutcome(seed, violation, time.monotonic() - began)

    def _wait_for_end(self) -> None:
        """It may hang, having closed all that tells of it: even `join` would not look at the time then."""
        assert self._process.pid is not None
        process = os.pidfd_open(self._process.pid)
        try:
            select.select([process], [], [], END_SECONDS_MAX)
        finally:
            os.close(process)

    def end(self) -> None:
        self.is_alive = False
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._told.close()


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "or hangs without a way to tell"
    if exit_code < 0:
        return f"by {signal.Signals(-exit_code).name}"
    return f"with exit code {exit_code}"


def _run_all(layer: Any, seeds: range, tells: Connection, parent: int) -> None:
    """What the child does. It is gone when the worker is, also where a seed hangs."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    for seed in seeds:
        tells.send(_run(layer, seed))


def _run(layer: Any, seed: int) -> SeedOutcome:
    began = time.monotonic()
    try:
        outcome = layer.run(seed, False)
    except BaseException as error:  # whatever a seed ends with is its outcome, and is kept
        return SeedOutcome(seed, _text(error), time.monotonic() - began)
    probes = tuple(sorted(str(probe.value) for probe in outcome.probes))
    return SeedOutcome(seed, None, time.monotonic() - began, probes)


def _text(error: BaseException) -> str:
    """As Parquet can hold it: half of a surrogate pair is no text there."""
    said = f"{type(error).__name__}: {error}"[:VIOLATION_CHARS_MAX]
    return said.encode(errors="backslashreplace").decode()
