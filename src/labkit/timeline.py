"""Honest users under a rotation: load, operator, and the record of every round."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import hvac
from mcp import Client
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState, RequestStateSecurity
from mcp.shared.exceptions import MCPError

from labkit.attacks import verdict
from labkit.checks import log_lines, logged_reasons
from labkit.front_desk import NOTES, booking, front_desk
from labkit.key_ring import key_id, key_id_in, load_key_ring
from labkit.provision import RING_PATH

_SAMPLE = 0.02  # seconds between two looks at the rings


class Codec(Protocol):
    """What a replica seals with: a `RequestStateCodec` that can tell which keys it holds."""

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The keys that it holds, in order; the first one seals."""

    def seal(self, payload: bytes) -> str:
        """Seal, as a `RequestStateCodec` does."""

    def unseal(self, token: str) -> bytes:
        """Unseal, as a `RequestStateCodec` does."""


@dataclass(frozen=True)
class Round:
    """The second round of a flow.

    Attributes:
        at: seconds since the start of the record.
        asked_by, answered_to: numbers of the replicas, from 0.
        refused: None, or the reason that the codec gave, or what the client was told.
        sealed_with: the id of the key that sealed the state.
        held: the ids of the keys that the answering replica held when it unsealed the state.
    """

    at: float
    asked_by: int
    answered_to: int
    refused: str | None
    sealed_with: str
    held: tuple[str, ...]


@dataclass
class Record:
    """What happened, in seconds since the start.

    Attributes:
        rounds: every second round.
        rings: for each replica, when it was first seen with which keys.
        phases: when the operator did what.
    """

    replicas: int
    rounds: list[Round] = field(default_factory=list)
    rings: list[list[tuple[float, tuple[str, ...]]]] = field(default_factory=list)
    phases: list[tuple[float, str]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    look: Callable[[], None] = field(default=lambda: None, repr=False)

    def __post_init__(self) -> None:
        self.rings = [[] for _ in range(self.replicas)]

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    def mark(self, phase: str) -> None:
        """Note that the operator begins `phase`, and print it."""
        self.look()  # what the replicas came to hold until now belongs before it
        self.phases.append((self.now(), phase))
        print(phase)

    def held(self, replica: int, at: float) -> tuple[str, ...]:
        """Return the ids of the keys that `replica` was last seen with before `at`."""
        return [held for since, held in self.rings[replica] if since <= at][-1]

    def refused(self) -> list[Round]:
        """Return the rounds that were refused."""
        return [each for each in self.rounds if each.refused is not None]


class _Noting:
    """Hands everything to the codec, and notes why it refuses a token."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.reasons: dict[str, str] = {}
        self.held: dict[str, tuple[str, ...]] = {}

    def seal(self, payload: bytes) -> str:
        return self.codec.seal(payload)

    def unseal(self, token: str) -> bytes:
        self.held[token] = self.codec.key_ids
        try:
            return self.codec.unseal(token)
        except InvalidRequestState as refused:
            self.reasons[token] = str(refused)
            raise
        except Exception as error:
            self.reasons[token] = type(error).__name__
            raise


@asynccontextmanager
async def under_load(
    codecs: Sequence[Codec],
    *,
    ttl: float,
    rate: float = 40,
    think: tuple[float, float] = (0.05, 0.8),
    seed: int = 0,
) -> AsyncIterator[Record]:
    """Run a replica for each of `codecs`, and a steady stream of users, for as long as the block lasts.

    Each user is asked at one replica, thinks, and answers at another one. At the end, those who were asked may answer.

    Args:
        codecs: what each replica seals with.
        ttl: seconds that a round may take.
        rate: users a second.
        think: the shortest and the longest time that a user thinks, in seconds; less than `ttl`.
        seed: of the choice of replicas and times.

    Yields:
        The record, which fills up meanwhile.
    """
    chance = random.Random(seed)  # noqa: S311 - it chooses replicas and waits, not keys
    noting = [_Noting(codec) for codec in codecs]
    async with AsyncExitStack() as stack:
        stack.enter_context(logged_reasons())
        stack.enter_context(log_lines("labkit"))
        clients = [
            await stack.enter_async_context(Client(front_desk(RequestStateSecurity(codec=each, ttl=ttl))))
            for each in noting
        ]
        record = Record(len(codecs))
        record.look = partial(_look, codecs, record)
        record.look()
        watching = asyncio.create_task(_watch(record))
        users: set[asyncio.Task[None]] = set()
        arriving = asyncio.create_task(_arrive(clients, noting, record, users, rate, think, chance))
        try:
            yield record
        finally:
            arriving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await arriving
            await asyncio.gather(*users)
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching


async def _arrive(
    clients: list[Client],
    noting: list[_Noting],
    record: Record,
    users: set[asyncio.Task[None]],
    rate: float,
    think: tuple[float, float],
    chance: random.Random,
) -> None:
    number = 0
    while True:
        await asyncio.sleep(max(0.0, number / rate - record.now()))
        asked_by, answered_to = chance.sample(range(len(clients)), 2) if len(clients) > 1 else (0, 0)
        user = asyncio.create_task(_use(clients, noting, record, asked_by, answered_to, chance.uniform(*think)))
        users.add(user)
        user.add_done_callback(users.discard)
        number += 1


async def _use(
    clients: list[Client], noting: list[_Noting], record: Record, asked_by: int, answered_to: int, think: float
) -> None:
    asking, answering = booking(clients[asked_by]), booking(clients[answered_to])
    try:
        state = (await asking()).request_state
    except MCPError:
        record.rounds.append(Round(record.now(), asked_by, asked_by, "not asked", "", ()))
        return
    await asyncio.sleep(think)
    at = record.now()
    said = await verdict(answering(state))
    refused = None if NOTES in said else noting[answered_to].reasons.get(state, said)
    held = noting[answered_to].held.get(state, ())
    record.rounds.append(Round(at, asked_by, answered_to, refused, key_id_in(state), held))


async def _watch(record: Record) -> None:
    while True:
        record.look()
        await asyncio.sleep(_SAMPLE)


def _look(codecs: Sequence[Codec], record: Record) -> None:
    for ring, codec in zip(record.rings, codecs, strict=True):
        held = codec.key_ids
        if not ring or ring[-1][1] != held:
            ring.append((record.now(), held))


class ReloadedRing:
    """A codec that reads the ring in KV when it is told to, as a replica does that is started anew.

    Attributes:
        key_ids: the ids of the keys that it holds.
    """

    def __init__(self, client: hvac.Client, path: str = RING_PATH) -> None:
        """Read the ring at `path` with `client`; raises as `load_key_ring` does."""
        self._client = client
        self._path = path
        self.reload()

    def reload(self) -> None:
        """Read the ring anew; raises as `load_key_ring` does."""
        keys = load_key_ring(self._client, self._path)
        self._codec, self.key_ids = AESGCMRequestStateCodec(keys), tuple(map(key_id, keys))

    def seal(self, payload: bytes) -> str:
        """Seal with the first key that was read."""
        return self._codec.seal(payload)

    def unseal(self, token: str) -> bytes:
        """Unseal with any key that was read; raises `InvalidRequestState` for what none of them sealed."""
        return self._codec.unseal(token)


class LazyRing(ReloadedRing):
    """A ring that is read as seldom as may still be in time: a slow replica that keeps its promise.

    It keeps it for as long as OpenBao answers, and does not refuse when it does not, as `LiveKeyRing` does.
    """

    def __init__(self, client: hvac.Client, path: str = RING_PATH, *, max_stale: float) -> None:
        """Read the ring at `path` with `client`, and once every three quarters of `max_stale` seconds from then on."""
        super().__init__(client, path)
        self._stop = threading.Event()
        threading.Thread(target=self._follow, args=(0.75 * max_stale,), name="LazyRing", daemon=True).start()

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()

    def _follow(self, pause: float) -> None:
        while not self._stop.wait(pause):
            self.reload()
