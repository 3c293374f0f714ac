"""A watch on a range of etcd's keys that resumes after its stream is lost, without missing or repeating an event.

A new stream always specifies the revision from which it requests events. etcd sends all events of a revision in one
response. So after a response, or a progress notice, the watch has seen everything up to the response's revision, and a
new stream on any member starts at the next revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import grpc

from ..errors import StoreUnavailable, WatchCompacted
from . import etcd_pb2 as pb
from .channel import EtcdChannels, Metadata, unary
from .errors import AnswerLost, Effect, EtcdRefused, NotSent, TokenRefused

RESUME_PAUSE_SECONDS = 0.1
"""Pause before a lost watch tries another endpoint."""

_NOT_THERE = ("compacted", "future revision")
"""etcd's errors for a revision that it has compacted, and for one that it does not have because it was restored from an
older copy."""

_MAY_NOT_WATCH = ("permission denied", "auth", "user name is empty")

_Call = grpc.aio.StreamStreamCall[bytes, pb.WatchResponse]


async def resuming_watch(
    channels: EtcdChannels, key: bytes, range_end: bytes, after: int
) -> AsyncGenerator[pb.Event, None]:
    """Yields every event in the range with a revision > `after`, in order, forever.

    Raises WatchCompacted if etcd has discarded events that were not yielded yet, EtcdRefused if we have no permission
    to watch. If etcd cannot be reached, waits until it can.
    """
    while True:
        endpoint, call = await _opened(channels, key, range_end, after)
        try:
            while True:
                response = await _next_response(channels, call)
                _check_not_cancelled(response, after)
                for event in response.events:
                    if event.kv.mod_revision > after:
                        yield event
                after = max(after, _seen_up_to(response))
        except AnswerLost:  # the stream ended: member gone, no leader, or dropped by etcd
            channels.turn_from(endpoint)
        finally:
            call.cancel()
        await asyncio.sleep(RESUME_PAUSE_SECONDS)


async def _opened(channels: EtcdChannels, key: bytes, range_end: bytes, after: int) -> tuple[str, _Call]:
    """Opens a stream. Once its watch is established, returns the endpoint and the stream."""
    create = pb.WatchCreateRequest(
        key=key, range_end=range_end, start_revision=after + 1, progress_notify=True
    )

    async def attempt(channel: grpc.aio.Channel, metadata: Metadata, seconds: float) -> tuple[str, _Call]:
        endpoint = channels.endpoint
        call: _Call = channel.stream_stream(
            "/etcdserverpb.Watch/Watch", response_deserializer=pb.WatchResponse.FromString
        )(metadata=metadata)
        try:
            async with asyncio.timeout(seconds):
                revision = await _created(call, pb.WatchRequest(create_request=create), after)
                if 0 < after != revision:
                    await _check_history(channel, metadata, seconds, create, after)
        except TimeoutError:
            call.cancel()
            raise NotSent(f"the watch was not established within {seconds:.1f} s") from None
        except BaseException:
            call.cancel()
            raise
        return endpoint, call

    while True:
        try:
            return await channels.run(attempt, Effect.READS)
        except EtcdRefused:
            raise
        except StoreUnavailable:  # retry: once etcd can be reached again, the watch resumes where it left off
            channels.check_open()
            await asyncio.sleep(RESUME_PAUSE_SECONDS)


async def _created(call: _Call, request: pb.WatchRequest, after: int) -> int:
    """Sends the request and waits until etcd confirms the watch; returns the store's revision at that time."""
    try:
        await call.write(request.SerializeToString())
    except asyncio.InvalidStateError:  # the call has ended; reading from it raises the reason
        pass
    response = await _read(call)
    # If we have no permission to watch, the first answer is both "created" and "canceled". An unknown token
    # gets an answer with the same wording, so one attempt with a new token is worthwhile.
    if response.canceled and any(words in response.cancel_reason for words in _MAY_NOT_WATCH):
        raise TokenRefused(f"watch: {response.cancel_reason}")
    _check_not_cancelled(response, after)
    if not response.created:
        raise AnswerLost("etcd did not confirm a new watch in its first answer")
    return response.header.revision


async def _check_history(
    channel: grpc.aio.Channel, metadata: Metadata, seconds: float, watch: pb.WatchCreateRequest, after: int
) -> None:
    """Raises WatchCompacted unless the store can be read as of revision `after`, which means that it has reached that
    revision and has not compacted it.

    etcd itself refuses a watch only from *before* its compact revision. It accepts a watch from exactly that revision,
    but older releases have omitted a deletion made at that revision (etcd-io/etcd#18089).
    """
    request = pb.RangeRequest(
        key=watch.key, range_end=watch.range_end, limit=1, revision=after, keys_only=True
    )
    read = unary("/etcdserverpb.KV/Range", request, pb.RangeResponse.FromString)
    try:
        await read(channel, metadata, seconds)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.OUT_OF_RANGE and any(
            one in (error.details() or "") for one in _NOT_THERE
        ):
            raise WatchCompacted(after) from error
        raise


async def _next_response(channels: EtcdChannels, call: _Call) -> pb.WatchResponse:
    try:
        return await _read(call)
    except grpc.aio.AioRpcError as error:
        raise AnswerLost(f"{error.details()} ({error.code().name})") from error
    except asyncio.CancelledError:
        channels.check_open_after_cancel()
        raise


async def _read(call: _Call) -> pb.WatchResponse:
    response = await call.read()
    if not isinstance(response, pb.WatchResponse):
        raise AnswerLost("etcd ended the watch stream")
    return response


def _check_not_cancelled(response: pb.WatchResponse, after: int) -> None:
    if response.compact_revision > 0:
        raise WatchCompacted(after)
    if response.canceled:
        raise AnswerLost(f"etcd ended the watch: {response.cancel_reason}")


def _seen_up_to(response: pb.WatchResponse) -> int:
    """Returns the revision up to which the watch has seen everything after this response.

    If the response has events, this is the last event's revision: the revision in the header may be ahead of a watch
    that is still catching up. A response without events is a progress notice, sent only to a watch that has caught up.
    """
    if response.events:
        return response.events[-1].kv.mod_revision
    return 0 if response.created else response.header.revision
