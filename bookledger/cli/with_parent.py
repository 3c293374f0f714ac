"""Runs a module in a process that is killed when its parent ends, even if the process itself is stopped.

    python -m bookledger.cli.with_parent PARENT-PID MODULE [ARGUMENT…]

The process asks the kernel for this itself. Asking between fork and exec would run Python's hooks around a fork in the
parent, and a signal that arrived at that moment would be lost, leaving a lock held.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, module = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(f"the process {parent} that started this one is gone")
    sys.argv[1:] = sys.argv[3:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
