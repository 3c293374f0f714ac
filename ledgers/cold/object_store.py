"""An object store, accessed through obstore: S3 and compatible servers, Google Cloud Storage, Azure, or a directory.

Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS and so on), from
the platform, or from the file specified by BOOKLEDGER_COLD_OPTIONS, which consists of NAME=VALUE lines with the same
names. They are never part of a URL, so they never get into the metadata or a log.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from metadata.secret_file import read_bounded

from ..errors import LedgerError
from ..tasks import in_daemon_thread
from .errors import NoSuchObject, ObjectStoreFailed

if TYPE_CHECKING:
    import obstore
    from obstore.store import ObjectStore as Backend

OPTIONS_FILE = "BOOKLEDGER_COLD_OPTIONS"

ATTEMPT_SECONDS_MAX = 30.0
"""Time limit for one request."""

RETRY_SECONDS_MAX = 60.0
"""How long a request is retried while the store throttles requests or fails."""

BACKOFF_SECONDS_MAX = 5.0
"""Maximum delay between two attempts. Delays begin at 0.1 s and grow exponentially."""

RETRIES_MAX = 10_000
"""Maximum number of retries, so high that only RETRY_SECONDS_MAX ends the attempts."""

BUFFER_BYTES = 8 * 1024 * 1024
"""Size of each part of an upload."""

UPLOADS_AT_ONCE_MAX = 4
"""Maximum number of parts of one upload that are sent at the same time."""


MARKER = ".bookledger"
"""A file in each directory to which objects were written. A directory without it may be an empty mount point, so a
missing object there is not reported as deleted."""


class Objects:
    """The objects under one URL. Calls raise ObjectStoreFailed with the store's reason, or NoSuchObject."""

    def __init__(self, url: str) -> None:
        """Opens no connection or file. Raises LedgerError if obstore is missing or does not support the URL."""
        self.url = url.rstrip("/")
        self._obstore = _obstore()
        parts = urlsplit(url)
        self._directory = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._backend = None if self._directory is not None else self._remote()

    def _remote(self) -> Backend:
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        options = _options()
        options["client_options"] = {"timeout": timedelta(seconds=ATTEMPT_SECONDS_MAX), "allow_http": True}
        options["retry_config"] = {
            "max_retries": RETRIES_MAX,
            "backoff": {"max_backoff": timedelta(seconds=BACKOFF_SECONDS_MAX)},
            "retry_timeout": timedelta(seconds=RETRY_SECONDS_MAX),
        }
        try:
            return from_url(self.url, **options)
        except (BaseError, OSError, ValueError) as error:
            raise self._failed("", "opened", str(error)) from error

    def _local(self) -> Backend:
        from obstore.store import from_url

        if self._directory is None or not self._directory.is_dir():
            why = "there is no such directory: create it, or mount the file system that belongs there"
            raise ObjectStoreFailed(self.url, why)
        return from_url(self.url)

    async def prepare(self) -> None:
        """Marks a directory as one that objects are written to. Do this before any metadata names an object there.
        Raises ObjectStoreFailed if the directory does not exist, because it may not be mounted."""
        async with self._call(MARKER, "written"):
            if self._directory is not None:
                await in_daemon_thread("objects", partial(_mark, self._directory))

    async def read(self, name: str, start: int, stop: int) -> memoryview:
        """Reads bytes `start` … `stop` - 1 of an object."""
        async with self._call(name, "read") as backend:
            found = await self._obstore.get_range_async(backend, name, start=start, end=stop)
        if len(found) != stop - start:
            raise ObjectStoreFailed(self._of(name), f"it ends before byte {stop}")
        return memoryview(found)

    async def read_end(self, name: str, length: int) -> tuple[memoryview, int]:
        """Returns the last `length` bytes of an object, or the whole object if it is smaller, and the object's size."""
        async with self._call(name, "read") as backend:
            found = await self._obstore.get_async(backend, name, options={"range": {"suffix": length}})
            return memoryview(await found.bytes_async()), found.meta["size"]

    async def size(self, name: str) -> int:
        """Returns the size of an object in bytes."""
        async with self._call(name, "found") as backend:
            return int((await self._obstore.head_async(backend, name))["size"])

    @asynccontextmanager
    async def writing(self, name: str) -> AsyncIterator[obstore.AsyncWritableFile]:
        """Uploads an object. Once the `with` block has ended, the object exists and is durable; if the block raises, no
        object is created. There is no time limit for the upload as a whole."""
        async with self._call(name, "written", is_bounded=False) as backend:
            upload = self._obstore.open_writer_async(
                backend, name, buffer_size=BUFFER_BYTES, max_concurrency=UPLOADS_AT_ONCE_MAX
            )
            yield upload
            await upload.close()
            if self._directory is not None:
                await in_daemon_thread("objects", partial(_sync, self._directory, self._directory / name))

    async def names(self) -> list[tuple[str, int]]:
        """Lists all objects with their sizes. There is no time limit for the listing as a whole."""
        async with self._call("", "listed", is_bounded=False) as backend:
            pages = self._obstore.list(backend)
            return [
                (one["path"], one["size"]) async for page in pages for one in page if one["path"] != MARKER
            ]

    async def delete_all(self, key: str) -> int:
        """Deletes every object with this key, and returns the number of deleted objects. In a directory, also deletes
        the files left by a killed upload, which no listing shows."""
        await self._check_mounted()
        async with self._call(key, "deleted") as backend:
            names = [one["path"] async for page in self._obstore.list(backend, key) for one in page]
            if names:
                await self._obstore.delete_async(backend, names)
            if self._directory is not None:
                await in_daemon_thread("objects", partial(_remove, self._directory / key))
        return len(names)

    async def _check_mounted(self) -> None:
        if self._directory is None:
            return
        async with self._call(MARKER, "found"):
            is_mounted = await in_daemon_thread("objects", (self._directory / MARKER).exists)
        if not is_mounted:
            raise ObjectStoreFailed(
                self.url, f"it has no file {MARKER}: mount the file system that belongs there"
            )

    def _of(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    @asynccontextmanager
    async def _call(self, name: str, done: str, *, is_bounded: bool = True) -> AsyncIterator[Backend]:
        """Yields the store, and turns its errors into errors that name the object. A bounded call to a directory ends
        after ATTEMPT_SECONDS_MAX, because it may be a mount that hangs; other stores have time limits of their own."""
        from obstore.exceptions import BaseError

        seconds_max = ATTEMPT_SECONDS_MAX if is_bounded and self._directory is not None else None
        try:
            async with asyncio.timeout(seconds_max) as limit:
                if self._backend is None:
                    self._backend = await in_daemon_thread("objects", self._local)
                yield self._backend
        except FileNotFoundError as error:
            await self._check_mounted()
            raise NoSuchObject(self._of(name)) from error
        except (BaseError, OSError, ValueError) as error:
            hangs = f"the directory has not answered for {seconds_max} s: check the file system mounted there"
            raise self._failed(name, done, hangs if limit.expired() else str(error)) from error

    def _failed(self, name: str, done: str, why: str) -> ObjectStoreFailed:
        reason = why.partition("\n\nDebug source")[0].strip()
        return ObjectStoreFailed(self._of(name), f"it cannot be {done}: {reason}")


@dataclass(slots=True)
class ObjectStores:
    """The object stores that a client has used, by URL."""

    _known: dict[str, Objects]

    def at(self, url: str) -> Objects:
        """Returns the objects under this URL. Raises LedgerError as `Objects` does."""
        if url not in self._known:
            self._known[url] = Objects(url)
        return self._known[url]


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise LedgerError("object stores need the extra `cold`: pip install 'bookledger[cold]'") from None
    return obstore


def _options() -> dict[str, Any]:
    """Returns the settings from the file that BOOKLEDGER_COLD_OPTIONS specifies. They are used in addition to the
    environment."""
    path = os.environ.get(OPTIONS_FILE)
    if not path:
        return {}
    lines = [line.strip() for line in read_bounded(path, private=True).decode().splitlines()]
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    if any(not between for _, between, _ in pairs):
        raise LedgerError(f"{path}, which {OPTIONS_FILE} specifies, must consist of NAME=VALUE lines")
    return {"config": {name.strip().lower(): value.strip() for name, _, value in pairs}}


def _mark(directory: Path) -> None:
    if not (marker := directory / MARKER).exists():
        marker.touch()
        _sync(directory, marker)


def _remove(directory: Path) -> None:
    if directory.is_dir():
        shutil.rmtree(directory)


def _sync(directory: Path, path: Path) -> None:
    """Syncs a file and its parent directories up to `directory`, because any of them may be new."""
    for one in (path, *path.parents):
        descriptor = os.open(one, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if one == directory:
            break
