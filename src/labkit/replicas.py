"""Replicas of the server under study, each with logins of its own."""

from __future__ import annotations

from typing import Any

import hvac
from mcp.server import MCPServer
from mcp.server.request_state import RequestStateSecurity

from labkit.batched_transit import BatchedTransit
from labkit.bucket import Bucket
from labkit.errors import LabError
from labkit.janitor import build_janitor
from labkit.key_ring import load_envelope_ring, load_key_ring
from labkit.lab import Lab
from labkit.live_ring import LiveKeyRing
from labkit.single_use import SingleUse
from labkit.transit import TransitCodec

ROLES = {"ring": "ring-reader", "envelope": "envelope-reader", "transit": "transit", "batched": "transit"}
"""For each codec, the role that a server needs for it; another one, `confirmations`, is needed for claims."""


def role_for(codec: str) -> str:
    """Return the role that a server needs for `codec`.

    Raises:
        LabError: there is no such codec.
    """
    if codec not in ROLES:
        raise LabError(f"There is no codec {codec!r}: use one of {', '.join(ROLES)}.")
    return ROLES[codec]


def security(
    codec: str, client: hvac.Client, *, ttl: float = 120, max_stale: float | None = None
) -> RequestStateSecurity:
    """Return what seals `requestState` in one of four ways; a server that is built with it goes through `attach`.

    Args:
        codec: "ring" (keys from KV), "envelope" (keys that lie in KV encrypted), "transit" (no key at all), or
            "batched" (the same, with many states in one call that holds up nobody).
        client: logged in as the role that `ROLES` names for it.
        ttl: seconds that a round may take.
        max_stale: for "ring", follow KV, and refuse after so many seconds without having read it; by default the ring
            is read once.

    Raises:
        LabError: there is no such codec, or the ring is not fit to seal with.
        OpenBaoUnavailable: OpenBao is away, or refuses our token.
    """
    role_for(codec)  # a name that is none ends here
    match codec:
        case "ring" if max_stale is not None:
            return RequestStateSecurity(codec=LiveKeyRing(client, max_stale=max_stale), ttl=ttl)
        case "ring":
            return RequestStateSecurity(keys=load_key_ring(client), ttl=ttl)
        case "envelope":
            return RequestStateSecurity(keys=load_envelope_ring(client), ttl=ttl)
        case "transit":
            return RequestStateSecurity(codec=TransitCodec(client), ttl=ttl)
        case _:
            return RequestStateSecurity(codec=BatchedTransit(client), ttl=ttl)


def attach(server: Any, sealing: RequestStateSecurity) -> None:
    """Give `server` what its codec needs in front of the boundary: for "batched" a middleware, else nothing.

    Args:
        server: was built with `sealing`.
        sealing: what `security` has returned.
    """
    if isinstance(sealing.codec, BatchedTransit):
        sealing.codec.attach(server)


def replica(lab: Lab, bucket: Bucket, codec: str = "ring", *, ttl: int = 120) -> MCPServer:
    """Return one more `storage-janitor`; replicas share nothing but their keys and the bucket.

    Args:
        lab: where keys lie and plans are parked.
        bucket: what is purged.
        codec: "ring", "envelope", "transit" or "batched".
        ttl: seconds that a round, and a claim, may take: 1 to 300.

    Raises:
        LabError: there is no such codec.
    """
    sealing = security(codec, lab.client(role_for(codec)), ttl=ttl)
    server = build_janitor(sealing, SingleUse(lab.client("confirmations"), ttl=ttl), bucket)
    attach(server, sealing)
    return server
