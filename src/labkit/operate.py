"""The operator's commands: `ring show | stage | activate | retire` and `transit show | rotate | retire`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import hvac

from labkit import approle, credentials
from labkit.errors import LabError
from labkit.openbao import find
from labkit.rotation import BREAKS, KeyRing, RingState
from labkit.transit_rotation import TransitRotation, TransitState

ROLE = "ring-operator"


def ring(step: str, folder: Path, *, ttl: int, max_stale: int, force: bool = False) -> int:
    """Do one step of the key ring's rotation, and print the phase, the next step and when that is safe.

    Args:
        step: "show", "stage", "activate" or "retire".
        folder: where the credentials of `ring-operator` lie.
        ttl, max_stale: as for `KeyRing`.
        force: do the step even where it is too early.

    Returns:
        0 when it is done.

    Raises:
        LabError: `BAO_ADDR` is not set, a credential or the ring cannot be used, or the step is refused.
        OpenBaoUnavailable: OpenBao is away, or refuses our login.
    """
    rotating = KeyRing(_log_in(folder), ttl=ttl, max_stale=max_stale)
    match step:
        case "show":
            state = rotating.read()
        case "stage":
            state = rotating.stage()
        case "activate":
            early = _early(rotating, step)
            state = rotating.activate(force=force)
            _warn(step, early)
        case _:
            early = _early(rotating, step)
            state = rotating.retire(force=force)
            _warn(step, early)
    print(_told(state, ttl, max_stale))
    return 0


def transit(step: str, folder: Path, *, ttl: int, force: bool = False) -> int:
    """Do one step of the Transit key's rotation, and print the versions and when the old ones may go.

    Args, returns and raises as for `ring`; the steps are "show", "rotate" and "retire".
    """
    rotating = TransitRotation(_log_in(folder), ttl=ttl)
    match step:
        case "show":
            state = rotating.read()
        case "rotate":
            state = rotating.rotate()
        case _:
            early = rotating.read().wait
            state = rotating.retire(force=force)
            _warn(step, early)
    print(_versions(state, ttl))
    return 0


def _early(rotating: KeyRing, step: str) -> int:
    state = rotating.read()
    return state.wait if state.next == step else 0


def _warn(step: str, early: int) -> None:
    if early:
        print(f"Forced, {early} s too early: it breaks {BREAKS[step]}.")


def _told(state: RingState, ttl: int, max_stale: int) -> str:
    count = f"{len(state.keys)} key{'s' if len(state.keys) > 1 else ''}"
    what = "destroy its earlier versions, which can still be read back: retire" if _unfinished(state) else state.next
    longest = f"--max-stale {max_stale}" + (f" or --ttl {ttl}" if state.next == "retire" else "")
    when = _when(state.wait, state.earliest, longest)
    return f"The ring is {state.phase}, with {count}, as version {state.version}. Next step: {what}, {when}."


def _unfinished(state: RingState) -> bool:
    return state.phase == "steady" and state.next == "retire"


def _when(wait: int, earliest: datetime, longest: str) -> str:
    if not wait:
        return "now"
    return f"in {wait} s, at {earliest:%H:%M:%S} UTC, if no server was started with more than {longest}"


def _versions(state: TransitState, ttl: int) -> str:
    if state.oldest == state.latest:
        return f"Version {state.latest} seals, and is the only one that unseals. Next step: rotate, now."
    when = _when(state.wait, state.earliest, f"--ttl {ttl}")
    return f"Version {state.latest} seals, and {state.oldest} and later unseal. Next step: retire, {when}."


def _log_in(folder: Path) -> hvac.Client:
    server = find()
    if server is None:
        raise LabError(
            "BAO_ADDR is not set: export the address of the OpenBao whose keys are to be rotated, "
            "such as that of `python -m labkit up`."
        )
    return approle.log_in(server, server.namespace, ROLE, *credentials.read(ROLE, folder))
