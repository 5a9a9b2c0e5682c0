"""Users who ask for a purge and answer, while there is trouble; what they are told is held against the bucket."""

from __future__ import annotations

import asyncio
import collections
import threading
from dataclasses import dataclass, field
from typing import Any

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from labkit import replicas
from labkit.attacks import text_of
from labkit.batched_transit import BatchedTransit
from labkit.bucket import Bucket
from labkit.janitor import QUESTION, REFUSALS, TOOL
from labkit.lab import Lab

PATIENCE = 0.5  # seconds; labkit's own ten would only make the storms longer
TRIES = 30
ASKED = "asked"
PURGED = "Purged 2 object(s)"
REVOKED = "Declined: nothing was purged, and the confirmation is revoked."
TOO_LATE = "Declined: this call purged nothing; the confirmation was used up or had expired already."
UNREVOKED = (
    "Declined: this call purged nothing. The confirmation could not be revoked and may stay valid for up to 300 s."
)
NOT_PURGED = "NOT PURGED: nothing was deleted by this call."
REFUSED = REFUSALS["already redeemed"]
NOT_LET_IN = "-32602 Invalid or expired requestState"  # a state that Transit could not open
NOT_SEALED = "-32603 Internal error"
OUTAGES = (NOT_PURGED, UNREVOKED, NOT_LET_IN, NOT_SEALED)
SENTENCES = (PURGED, REVOKED, TOO_LATE, REFUSED, *OUTAGES)
IN_DOUBT = "cannot be known"
GONE_UNUSED = "a claim is gone after OpenBao failed with 500 while consuming it"


class Counted(Bucket):
    """A bucket that counts how often each object was deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: collections.Counter[str] = collections.Counter()

    def delete(self, key: str) -> bool:
        gone = super().delete(key)
        self.deleted[key] += gone
        return gone


@dataclass
class Flow:
    """One user, who asks to purge two objects of their own, and what they want when they are asked back."""

    number: int
    codec: str
    wish: str | None  # "accept", "decline", or never to answer
    state: str | None = None
    told: list[str] = field(default_factory=list)
    last: str = ""
    troubled: bool = False
    purges: int = 0

    @property
    def prefix(self) -> str:
        return f"user-{self.number:04}/"

    @property
    def keys(self) -> list[str]:
        return [f"{self.prefix}1", f"{self.prefix}2"]

    @property
    def in_doubt(self) -> bool:
        return any(IN_DOUBT in said for said in self.told)


class Service:
    """Replicas, one for each codec, on one bucket; and what their users are told.

    Attributes:
        calm: whether there is no trouble.
        over: whether there will be no more of it.
        started: flows that have begun.
        hits: outages that users were told of, and logins that had to be renewed, while there was trouble.
    """

    def __init__(self, lab: Lab) -> None:
        self.bucket = Counted()
        self.codecs = list(replicas.ROLES)
        self.servers = {codec: replicas.replica(lab, self.bucket, codec, ttl=300) for codec in self.codecs}
        self.clients: dict[str, Client] = {}
        self.calm = threading.Event()
        self.calm.set()
        self.over = False
        self.started = self.hits = self.new_logins = 0
        self.told: collections.Counter[str] = collections.Counter()
        placed = [getattr(each, "__self__", None) for server in self.servers.values() for each in server.middleware]
        self._batched = {codec for codec in placed if isinstance(codec, BatchedTransit)}
        self._logins = [client for client in lab._clients if hasattr(client.adapter, "identity")]
        for login in self._logins:
            login.adapter.session.hooks["response"].append(self._count_logins)
        self.patience(PATIENCE)

    def patience(self, seconds: float) -> None:
        """Set how long the servers wait for an answer."""
        for login in self._logins:
            login.adapter._kwargs["timeout"] = seconds
        for codec in self._batched:
            codec._limits["timeout"] = seconds
            codec._queues.clear()  # nobody waits: it is before the trouble, or after it

    def _count_logins(self, answer: Any, *_: object, **__: object) -> None:
        if answer.url.endswith("/login") and answer.ok:
            self.new_logins += 1
            self.hits += not self.calm.is_set()

    async def call(self, flow: Flow, action: Any = None) -> str:
        """Play one round, and hold what the user is told against the bucket."""
        answer = ElicitResult(action=action, content={"confirm": True}) if action else None
        try:
            result: Any = await self.clients[flow.codec].session.call_tool(
                TOOL,
                {"prefix": flow.prefix},
                input_responses={QUESTION: answer} if answer else None,
                request_state=flow.state if action else None,
                allow_input_required=True,
            )
        except MCPError as error:
            said = f"{error.error.code} {error.error.message}"
        else:
            if isinstance(result, InputRequiredResult):
                flow.state = result.request_state
                return ASKED
            said = text_of(result)
        flow.told.append(said)
        sentence = next((one for one in SENTENCES if said.startswith(one)), None)
        assert sentence is not None, f"told what is no sentence of the janitor's, {said!r}: {flow}"
        self.told[f"{sentence} … {IN_DOUBT}" if IN_DOUBT in said else sentence] += 1
        there = self.bucket.keys(flow.prefix)
        if sentence == PURGED:
            assert there == [], f"told so, and they are still there: {flow}"
            assert action == "accept" == flow.wish, f"nobody confirmed: {flow}"
            flow.purges += 1
        elif flow.last != PURGED:
            assert there == flow.keys, f"told {said!r}, and some are gone: {flow}"
        if sentence in OUTAGES:
            flow.troubled = True
            self.hits += not self.calm.is_set()
        return sentence

    async def insist(self, flow: Flow, action: str | None = None) -> str:
        """Try until there is an answer, each time when the trouble is over."""
        for _ in range(TRIES):
            said = await self.call(flow, action)
            if said not in OUTAGES:
                return said
            await asyncio.to_thread(self.calm.wait, timeout=60)
        raise AssertionError(f"no answer in {TRIES} tries, and there was no trouble any more: {flow}")

    async def play(self, flow: Flow, think: float) -> None:
        """Ask, think, answer."""
        self.started += 1
        for key in flow.keys:
            self.bucket.put(key)
        logins = self.new_logins
        flow.last = await self.insist(flow)
        assert flow.last == ASKED, flow
        await asyncio.sleep(think)
        if flow.wish:
            flow.last = await self.insist(flow, flow.wish)
        flow.troubled |= self.new_logins > logins
