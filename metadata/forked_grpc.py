"""gRPC in a process that was forked from one that used it.

gRPC keeps threads, locks and an epoll descriptor for the whole process. A forked child inherits them as they were:
the threads are gone, a lock may be taken for ever, and the descriptor is still shared with the parent. Nothing of
that can be repaired from outside, so such a child gets a gRPC of its own: a second copy of the extension module,
with a state of its own. The parent's copy is left as it is: never used, and never freed, for a channel that is freed
shuts its sockets down, and they are the parent's too.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys
import threading
import weakref
from types import ModuleType

EXTENSION = "grpc._cython.cygrpc"
"""gRPC's compiled part. Everything that a process has once lives in it; the rest is ordinary Python."""

_holders: weakref.WeakSet[object] = weakref.WeakSet()
"""Who has channels and calls of this process's gRPC."""

_is_inherited = False
_renewing = threading.Lock()


def own_grpc(holder: object) -> None:
    """Call before `holder` makes its first channel. In a forked child it takes some 50 ms, once.

    Raises ImportError where the copy cannot be loaded; then use multiprocessing's `spawn` or `forkserver`.
    """
    global _is_inherited
    with _renewing:
        if _is_inherited:
            _renew(sys.modules[EXTENSION])
            _is_inherited = False
        _holders.add(holder)


def _renew(old: ModuleType) -> None:
    new = _second_copy(old)
    for name, module in list(sys.modules.items()):
        if module is not new and (name == "grpc" or name.startswith("grpc.")):
            _rebind(module, old, new)


def _second_copy(old: ModuleType) -> ModuleType:
    path = _copy_of_file(str(old.__file__))
    loader = importlib.machinery.ExtensionFileLoader(EXTENSION, path)
    spec = importlib.util.spec_from_file_location(EXTENSION, path, loader=loader)
    assert spec is not None
    try:
        new = importlib.util.module_from_spec(spec)
        sys.modules[EXTENSION] = new  # it imports itself while it is loaded
        loader.exec_module(new)
    except BaseException:
        sys.modules[EXTENSION] = old
        raise
    new.__file__ = old.__file__  # where a child of this process finds it again
    return new


def _copy_of_file(path: str) -> str:
    """The dynamic loader knows a library by its inode and by its path, so both are new.

    The descriptor stays open: closed, its number, and with it the path, might be given again.
    """
    copy = os.memfd_create("grpc-of-a-forked-process")
    with open(path, "rb") as source:
        size, copied = os.fstat(source.fileno()).st_size, 0
        while copied < size:
            copied += os.sendfile(copy, source.fileno(), copied, size - copied)
    return f"/proc/self/fd/{copy}"


def _rebind(module: ModuleType, old: ModuleType, new: ModuleType) -> None:
    """What the module took from the old copy by name, it takes from the new one."""
    names = vars(module)
    for name, value in list(names.items()):
        if value is old:
            names[name] = new
        elif getattr(value, "__module__", None) == EXTENSION and vars(old).get(name) is value:
            names[name] = getattr(new, name)


def _after_fork_in_child() -> None:
    global _is_inherited, _renewing
    _renewing = threading.Lock()  # a thread that is not here may have held the old one
    if EXTENSION in sys.modules:
        _is_inherited = True
        _never_free([sys.modules[EXTENSION], *_holders])
        _holders.clear()


def _never_free(objects: list[object]) -> None:
    """Not at the interpreter's end either."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))


os.register_at_fork(after_in_child=_after_fork_in_child)
