"""Health and versions of an etcd cluster's members."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

import grpc

from ..errors import StoreTooOld
from ..store import StoreHealth
from . import etcd_pb2 as pb
from .channel import EtcdChannels, unary
from .errors import WHAT_TO_DO_FULL, EtcdRefused, NotSent

VERSION_MIN = (3, 4)
"""Minimum version of etcd. Older versions lack lease checkpoints, and the hasleader check for single calls."""

UNSAFE = (((3, 4), (3, 4, 22)), ((3, 5), (3, 5, 6)))
"""Ranges of etcd versions that, according to etcd, may lose confirmed writes; a range does not include its end. The
defects: 3.5.0 to 3.5.2 if any member is killed (etcd-io/etcd #13766), before 3.4.21 and 3.5.5 if the only member is
killed (#14370), before 3.5.6 if a member is killed during defragmentation (#14685), and 3.4.20, 3.4.21 and 3.5.5 if a
member joins a cluster with authentication."""

_ALARM = re.compile(r"\balarm:(\w+)")
_ALARMS = {
    "NOSPACE": f"etcd is out of space, and refuses changes: {WHAT_TO_DO_FULL}",
    "CORRUPT": "etcd has detected that its copies differ, and refuses all requests: "
    "https://etcd.io/docs/v3.5/op-guide/data_corruption/",
}
"""The meaning of each etcd alarm for the metadata, and the remedy."""

_REFUSES = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.INVALID_ARGUMENT,
)


async def health_of(channels: EtcdChannels, endpoints: tuple[str, ...], seconds: float) -> StoreHealth:
    """Queries every endpoint. Raises StoreTooOld. A member that does not answer is reported in the result, not as an
    error."""
    replies = await asyncio.gather(*(_asked(channels, one, seconds) for one in endpoints))
    members, versions, size = {}, set(), 0
    alarms: set[str] = set()
    for endpoint, reply in zip(endpoints, replies, strict=True):
        members[endpoint] = reply if isinstance(reply, str) else _describe_member(reply)
        if not isinstance(reply, str):
            versions.add(reply.version)
            size = max(size, reply.dbSize)
            alarms.update(found for error in reply.errors for found in _ALARM.findall(error))
    _check_not_too_old(versions)
    doubts = {why_unsafe(found) for found in versions} - {""}
    refuses = "; ".join(_ALARMS.get(one, f"etcd has the alarm {one}") for one in sorted(alarms))
    doubt, is_reported = "; ".join(sorted(doubts)), bool(versions)
    return StoreHealth("etcd", ", ".join(sorted(versions)), size, members, doubt, refuses, is_reported)


async def _asked(channels: EtcdChannels, endpoint: str, seconds: float) -> pb.StatusResponse | str:
    attempt = unary("/etcdserverpb.Maintenance/Status", pb.StatusRequest(), pb.StatusResponse.FromString)
    try:
        channel = await channels.connected(endpoint, seconds)
        metadata, _ = await channels.credentials(endpoint, channel, seconds)
        return await attempt(channel, metadata, seconds)
    except grpc.aio.AioRpcError as error:
        if error.code() in _REFUSES:
            return "alive, but does not report its status"
        return f"{error.details()} ({error.code().name})"
    except EtcdRefused as refused:
        return f"alive, but refused the request: {refused.details}"
    except NotSent as error:
        return str(error)


def _describe_member(reply: pb.StatusResponse) -> str:
    voter = "leader" if reply.leader == reply.header.member_id else "follower"
    role = "learner" if reply.isLearner else voter
    return f"{role}, {'; '.join(reply.errors)}" if reply.errors else role


def why_unsafe(version: str) -> str:
    """Returns why this version of etcd must not be used, and the remedy; "" if it has no known defect."""
    number = _number(version)
    if number is None:
        return ""  # a custom build
    if number < VERSION_MIN:
        return f"etcd is version {version}; use {_dotted(VERSION_MIN)} or newer"
    for first, fixed in UNSAFE:
        if first <= number < fixed:
            loss = "which may lose confirmed writes"
            return f"etcd is version {version}, {loss}: upgrade it to {_dotted(fixed)} or newer"
    return ""


def _check_not_too_old(versions: Iterable[str]) -> None:
    for version in sorted(versions):
        if (number := _number(version)) is not None and number < VERSION_MIN:
            raise StoreTooOld(why_unsafe(version))


def _number(version: str) -> tuple[int, ...] | None:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return None if found is None else tuple(map(int, found.groups()))


def _dotted(number: tuple[int, ...]) -> str:
    return ".".join(map(str, number))
