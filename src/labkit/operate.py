"""The operator's commands: `ring show | stage | activate | retire` and `transit show | rotate | retire`."""

from __future__ import annotations

from pathlib import Path

import hvac

from labkit import approle, credentials
from labkit.errors import LabError
from labkit.openbao import find
from labkit.rotation import BREAKS, KeyRing, RingState, TransitRotation, TransitState

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
            _warn(step, rotating.read().wait if force else 0)
            state = rotating.activate(force=force)
        case _:
            _warn(step, rotating.read().wait if force else 0)
            state = rotating.retire(force=force)
    print(_told(state))
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
            _warn(step, rotating.read().wait if force else 0)
            state = rotating.retire(force=force)
    print(_versions(state))
    return 0


def _warn(step: str, wait: int) -> None:
    if wait:
        print(f"Forced, {wait} s too early: it breaks {BREAKS[step]}.")


def _told(state: RingState) -> str:
    count = f"{len(state.keys)} key{'s' if len(state.keys) > 1 else ''}"
    what = "destroy its earlier versions, which can still be read back: retire" if _unfinished(state) else state.next
    when = f"in {state.wait} s, at {state.earliest:%H:%M:%S} UTC" if state.wait else "now"
    return f"The ring is {state.phase}, with {count}, as version {state.version}. Next step: {what}, {when}."


def _unfinished(state: RingState) -> bool:
    return state.phase == "steady" and state.next == "retire"


def _versions(state: TransitState) -> str:
    if state.oldest == state.latest:
        return f"Version {state.latest} seals, and is the only one that unseals. Next step: rotate, now."
    when = f"in {state.wait} s, at {state.earliest:%H:%M:%S} UTC" if state.wait else "now"
    return f"Version {state.latest} seals, and {state.oldest} and later unseal. Next step: retire, {when}."


def _log_in(folder: Path) -> hvac.Client:
    server = find()
    if server is None:
        raise LabError(
            "BAO_ADDR is not set: export the address of the OpenBao whose keys are to be rotated, "
            "such as that of `python -m labkit up`."
        )
    return approle.log_in(server, server.namespace, ROLE, *credentials.read(ROLE, folder))
