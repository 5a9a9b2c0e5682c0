"""Rotate the key ring in KV, or the Transit key, in steps that turn no honest user away."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import hvac
import hvac.exceptions

from labkit.clock import now
from labkit.errors import LabError, outage, part, said
from labkit.key_ring import parse_key_ring, read_ring
from labkit.provision import RING_PATH

_FITTING = {(1, "steady"), (2, "staged"), (2, "activated")}
_NEXT = {"steady": "stage", "staged": "activate", "activated": "retire"}
BREAKS = {
    "activate": "every round that a replica which has not read the staged ring gets from one that has",
    "retire": "every round that was sealed with the old key and is still open",
}
"""What a step breaks that comes too early."""


class RotationRefused(LabError):
    """The step is not the next one, or comes too early, or somebody else was faster. The message says what to do."""


@dataclass(frozen=True)
class RingState:
    """A key ring as it lies in KV.

    Attributes:
        phase: "steady" with one key in use, "staged" with a second one that only unseals yet, or "activated" with a
            second one that only unseals still.
        keys: the keys in ring order.
        version: of the secret in KV.
        next: the step that comes next: "stage", "activate" or "retire".
        wait: whole seconds until that step is safe, by OpenBao's clock; 0 when it is.
        earliest: when that is.
        earlier: versions in KV, before this one, that can still be read back, retired keys and all.
    """

    phase: str
    keys: list[bytes] = field(repr=False)
    version: int
    next: str
    wait: int
    earliest: datetime
    earlier: tuple[int, ...] = ()


class KeyRing:
    """The key ring in KV as a small state machine: [old], staged [old, new], activated [new, old], and [new] again.

    A step is safe once every replica has read the ring that the step before it wrote, or refuses rounds. So it needs
    no list of replicas, only their promise: one that has not read the ring for `max_stale` seconds refuses
    (`labkit.LiveKeyRing`). Each write is a check-and-set, so of several operators at once, one wins.

    The time counts from when OpenBao stamped the ring, which is a little before it can be read. `LiveKeyRing` leaves
    room for that, a tenth of `max_stale`; where a write may take longer, give a longer one. In a cluster, the nodes'
    clocks must agree, and replicas must read from the active node.

    Source: OpenBao documentation, "KV v2"; SDK, `mcp.server.request_state.RequestStateSecurity`.
    """

    def __init__(self, client: hvac.Client, path: str = RING_PATH, *, ttl: float = 120, max_stale: float = 60) -> None:
        """Rotate the ring at `path`; `client` needs the role `ring-operator`.

        Args:
            client: may read, write and destroy the ring, and read its metadata.
            path: where the ring lies in the mount `secret/`.
            ttl: the longest time, in seconds, that any server with this ring lets a round take.
            max_stale: the longest time, in seconds, that any of them goes on without reading the ring.

        Raises:
            ValueError: one of the times is negative, or longer than a day.
        """
        self._client = client
        self._path = path
        ttl, max_stale = in_range("ttl", ttl), in_range("max_stale", max_stale)
        self._after = {"steady": max_stale + ttl, "staged": max_stale, "activated": max_stale + ttl}

    def read(self) -> RingState:
        """Return the ring, its phase, the next step, and when that is safe.

        Raises:
            InvalidKeyRing: what lies in KV is no key ring.
            RotationRefused: it has more than one key and says nothing of a phase, or it contradicts itself.
            OpenBaoUnavailable: OpenBao is away, or refuses our token.
        """
        secret = read_ring(self._client, self._path)
        data: dict[str, Any] = secret["data"]
        with outage(f"reading the history of the key ring at secret/{self._path}"):
            version = int(secret["metadata"]["version"])
            created = datetime.fromisoformat(secret["metadata"]["created_time"]).timestamp()
            history = part(self._client.secrets.kv.v2.read_secret_metadata(self._path, mount_point="secret"), "data")
            earlier = tuple(int(n) for n, v in history["versions"].items() if int(n) < version and not v["destroyed"])
            asked = now(self._client)
        keys = parse_key_ring(data, self._path)
        phase = self._phase(data, len(keys))
        # A retirement that was interrupted has still to destroy what can be read back. A ring of one key that somebody
        # wrote by hand says nothing of a phase, and what lay there before it may be in use still.
        cleaning = phase == "steady" and bool(earlier)
        safe = phase == "steady" and not (cleaning and "phase" not in data)
        earliest = created + (0 if safe else self._after[phase])
        return RingState(
            phase=phase,
            keys=keys,
            version=version,
            next="retire" if cleaning else _NEXT[phase],
            wait=0 if safe else max(0, math.ceil(earliest - asked)),
            earliest=datetime.fromtimestamp(earliest, UTC),
            earlier=earlier,
        )

    def _phase(self, data: dict[str, Any], count: int) -> str:
        phase = data.get("phase", "steady" if count == 1 else None)
        if not isinstance(phase, str) or (count, phase) not in _FITTING:
            told = f"the phase {phase!r}" if isinstance(phase, str) and phase in _NEXT else "no phase that is known"
            fix = (
                f"say which, `bao kv patch -method=rw secret/{self._path} phase=staged` if the new key is second, "
                "phase=activated if it is first"
                if count == 2
                else "a rotation is between two keys, so write those that are in use, the one that seals first"
            )
            raise RotationRefused(f"The ring at secret/{self._path} has {count} key(s) and {told}: {fix}.")
        return phase

    def stage(self) -> RingState:
        """Make a new key and hand it out for unsealing: [old, new]. Returns the ring as it then is.

        Raises:
            RotationRefused: another step is due, or somebody else changed the ring meanwhile.
            InvalidKeyRing, OpenBaoUnavailable: as for `read`.
        """
        state = self._due("stage", force=True)
        return self._write(state, [*state.keys, secrets.token_bytes(32)], "staged")

    def activate(self, *, force: bool = False) -> RingState:
        """Let the new key seal: [new, old]. Returns the ring as it then is.

        Args:
            force: do it even where it is too early, and some replicas do not know the new key yet. They then refuse
                what the others seal.

        Raises:
            RotationRefused: another step is due, it is too early, or somebody else changed the ring meanwhile.
            InvalidKeyRing, OpenBaoUnavailable: as for `read`.
        """
        state = self._due("activate", force)
        return self._write(state, [*state.keys[1:], state.keys[0]], "activated")

    def retire(self, *, force: bool = False) -> RingState:
        """Drop the old key, and destroy every earlier version in KV: [new]. Returns the ring as it then is.

        Args:
            force: do it even where it is too early, and rounds that were sealed with the old key are still open.
                They are then refused.

        Raises:
            RotationRefused: another step is due, it is too early, or somebody else changed the ring meanwhile.
            InvalidKeyRing, OpenBaoUnavailable: as for `read`.
        """
        state = self._due("retire", force)
        if state.phase == "activated":
            state = self._write(state, state.keys[:1], "steady")
        if not state.earlier:
            return state  # somebody else has destroyed them
        with outage(f"destroying earlier versions of the key ring at secret/{self._path}"):
            self._client.secrets.kv.v2.destroy_secret_versions(self._path, list(state.earlier), mount_point="secret")
        return self.read()

    def _due(self, step: str, force: bool) -> RingState:
        state = self.read()
        if state.next != step:
            raise RotationRefused(
                f"The ring at secret/{self._path} is {state.phase}: the next step is to {state.next}, not to {step}."
            )
        if state.wait and not force:
            raise RotationRefused(
                f"It is too early to {step} the ring at secret/{self._path}: wait {state.wait} s, "
                f"until {state.earliest:%H:%M:%S} UTC; until then it would break {BREAKS[step]}."
            )
        return state

    def _write(self, state: RingState, keys: list[bytes], phase: str) -> RingState:
        secret = {"keys": ",".join(key.hex() for key in keys), "phase": phase}
        try:
            with outage(f"writing the key ring at secret/{self._path}", passing=(hvac.exceptions.InvalidRequest,)):
                self._client.secrets.kv.v2.create_or_update_secret(
                    self._path, secret, cas=state.version, mount_point="secret"
                )
        except hvac.exceptions.InvalidRequest as error:
            if "check-and-set" not in str(error):
                raise RotationRefused(
                    f"OpenBao does not take the ring at secret/{self._path} ({said(error)}): look at it again."
                ) from None
            raise RotationRefused(
                f"Somebody else changed the ring at secret/{self._path} meanwhile: look at it again before you go on."
            ) from None
        return self.read()


def in_range(name: str, seconds: float) -> float:
    """Return `seconds` if they are 0 to a day.

    Raises:
        ValueError: they are not; the message names the parameter, `name`.
    """
    if not 0 <= seconds <= 86_400:
        raise ValueError(f"{name} is 0 to 86,400 seconds, not {seconds!r}")
    return seconds
