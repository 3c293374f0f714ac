"""Fork safety of gRPC: loads a second copy of gRPC in a process whose parent had used gRPC before the fork."""

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
"""gRPC's compiled module. It holds all of gRPC's state for the process; the rest of gRPC is ordinary Python."""

_holders: weakref.WeakSet[object] = weakref.WeakSet()
"""Objects that hold channels and calls of this process's gRPC."""

_is_inherited = False
_renewing = threading.Lock()


def own_grpc(holder: object) -> None:
    """Gives a forked child its own copy of gRPC. Call this before `holder` makes its first channel. In a forked child
    the first call takes about 50 ms.

    Raises ImportError if the copy cannot be loaded; use multiprocessing's `spawn` or `forkserver` in that case.
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
        sys.modules[EXTENSION] = new  # the module imports itself while it is loaded
        loader.exec_module(new)
    except BaseException:
        sys.modules[EXTENSION] = old
        raise
    new.__file__ = old.__file__  # so that a child of this process finds the library
    return new


def _copy_of_file(path: str) -> str:
    """Copies the library to a new inode and path, since the dynamic loader identifies a library by both.

    The descriptor is left open: if it were closed, its number, and therefore the path, might be reused.
    """
    copy = os.memfd_create("grpc-of-a-forked-process")
    with open(path, "rb") as source:
        size, copied = os.fstat(source.fileno()).st_size, 0
        while copied < size:
            copied += os.sendfile(copy, source.fileno(), copied, size - copied)
    return f"/proc/self/fd/{copy}"


def _rebind(module: ModuleType, old: ModuleType, new: ModuleType) -> None:
    """Replaces the names that the module imported from the old copy with those of the new copy."""
    names = vars(module)
    for name, value in list(names.items()):
        if value is old:
            names[name] = new
        elif getattr(value, "__module__", None) == EXTENSION and vars(old).get(name) is value:
            names[name] = getattr(new, name)


def _after_fork_in_child() -> None:
    global _is_inherited, _renewing
    _renewing = threading.Lock()  # the old lock may be held by a thread that does not exist in the child
    if EXTENSION in sys.modules:
        _is_inherited = True
        _never_free([sys.modules[EXTENSION], *_holders])
        _holders.clear()


def _never_free(objects: list[object]) -> None:
    """Keeps references to these objects forever, even during interpreter shutdown."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))


os.register_at_fork(after_in_child=_after_fork_in_child)
