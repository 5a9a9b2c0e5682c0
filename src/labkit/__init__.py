"""Helpers of the notebook series "Securing requestState with OpenBao".

Everything public is a name of this module, and is loaded when it is first used: `python -m labkit` has to answer
quickly, and on machines where a package is still missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.batched_transit import BatchedTransit as BatchedTransit
    from labkit.bucket import Bucket as Bucket
    from labkit.checks import expect_refusal as expect_refusal
    from labkit.errors import LabError as LabError
    from labkit.errors import OpenBaoUnavailable as OpenBaoUnavailable
    from labkit.exercises import check as check
    from labkit.janitor import build_janitor as build_janitor
    from labkit.janitor import recover as recover
    from labkit.key_ring import load_envelope_ring as load_envelope_ring
    from labkit.key_ring import load_key_ring as load_key_ring
    from labkit.lab import Lab as Lab
    from labkit.lab import start as start
    from labkit.ledger import Ledger as Ledger
    from labkit.listing import source as source
    from labkit.live_ring import LiveKeyRing as LiveKeyRing
    from labkit.rotation import KeyRing as KeyRing
    from labkit.single_use import AlreadyRedeemed as AlreadyRedeemed
    from labkit.single_use import SingleUse as SingleUse
    from labkit.single_use import WrongPlan as WrongPlan
    from labkit.transit import TransitCodec as TransitCodec

_HOMES = {
    "AlreadyRedeemed": "single_use",
    "BatchedTransit": "batched_transit",
    "Bucket": "bucket",
    "KeyRing": "rotation",
    "Lab": "lab",
    "LabError": "errors",
    "Ledger": "ledger",
    "LiveKeyRing": "live_ring",
    "OpenBaoUnavailable": "errors",
    "SingleUse": "single_use",
    "TransitCodec": "transit",
    "WrongPlan": "single_use",
    "build_janitor": "janitor",
    "check": "exercises",
    "expect_refusal": "checks",
    "load_envelope_ring": "key_ring",
    "load_key_ring": "key_ring",
    "recover": "janitor",
    "source": "listing",
    "start": "lab",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"labkit has no {name!r}; it has {', '.join(sorted(_HOMES))}")
    return getattr(import_module(f"labkit.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
