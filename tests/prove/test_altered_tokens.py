"""A hundred thousand altered tokens for each codec: none gets past the boundary, and all are told the same."""

from __future__ import annotations

import asyncio
import collections
import gc
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from alterations import LONGEST, altered
from mcp import Client
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.exceptions import MCPError

from labkit import attacks, replicas
from labkit.attacks import Question
from labkit.bucket import Bucket
from labkit.checks import log_lines, logged_reasons
from labkit.janitor import QUESTION, TOOL
from labkit.lab import Lab

pytestmark = pytest.mark.anyio
SIZE = float(os.environ.get("SIZE", "1"))
SEED = int(os.environ.get("SEED", "20260728"))
TOKENS = max(1000, int(100_000 * SIZE))
BATCH = 500  # few enough that what is altered has not expired, which would be refused for that alone
FROZEN = (-32602, "Invalid or expired requestState", '{"reason": "invalid_request_state"}')
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
REASONS = {"malformed", "seal", "unknown key", "non-string requestState"}  # and no "codec error": nobody was away
# Resident memory may grow by this much in the last nine tenths. Less than the one in two hundred that are huge weigh,
# and, at full size, a third of what all the others do: a server, log or cache that kept what it refused would pass it.
# More than a dozen of the largest in the act of being decoded, as the allocator may keep that for the next one.
GROWTH = 16 * LONGEST


class Held(NamedTuple):
    """A genuine token, and who may present it for what."""

    user: str
    question: Question


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def sign_in(user: str) -> None:
    token = AccessToken(token=user, client_id="app", scopes=[], subject=user)
    auth_context_var.set(AuthenticatedUser(token))


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def present(client: Client, prefix: str, state: Any) -> Any:
    """Send round 2 with a yes. As raw parameters: the client's own model would not let pass what is no string.

    Everything from the server's end of the connection on takes part: its middleware, the boundary and the handler.
    """
    yes = {QUESTION: {"action": "accept", "content": {"confirm": True}}}
    call = {"name": TOOL, "arguments": {"prefix": prefix}, "inputResponses": yes, "requestState": state, "_meta": META}
    return await client.session._dispatcher.send_raw_request("tools/call", call)


async def answer_to(client: Client, prefix: str, state: Any) -> Any:
    try:
        return str(await present(client, prefix, state))
    except MCPError as caught:
        return (caught.error.code, caught.error.message, json.dumps(caught.error.data))


@pytest.mark.parametrize("codec", replicas.ROLES)
async def test_no_altered_token_is_accepted_and_each_is_told_the_same(
    own_lab: Lab, codec: str, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(f"{SEED} {codec}")  # noqa: S311 - it chooses alterations, not keys
    bucket = Bucket()
    server = replicas.replica(own_lab, bucket, codec, ttl=300)
    passed = 0
    at_once = 10 if codec == "batched" else 1  # so that the altered ones travel together

    async def inside(ctx: Any, call_next: Any) -> Any:
        nonlocal passed
        passed += ctx.method == "tools/call"
        return await call_next(ctx)

    server.middleware.append(inside)  # behind the boundary: whoever gets here, gets to the tool
    kinds: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    told: collections.Counter[bool] = collections.Counter()
    at_first = 0
    with logged_reasons() as logged, log_lines("labkit") as alarms:
        async with Client(server) as client:
            while kinds.total() < TOKENS:
                held: list[Held] = []
                bucket.reset(["logs/1", "logs/2", "tmp/1"])
                for user, prefix in [(user, prefix) for user in ("alice", "bob") for prefix in ("logs/", "tmp/")]:
                    sign_in(user)
                    held.append(Held(user, await attacks.ask(client, prefix)))
                before = passed
                for _ in range(min(BATCH, TOKENS - kinds.total()) // at_once):
                    tries, rounds = [], []
                    for _ in range(at_once):
                        genuine, other = chance.sample(held, 2)
                        kind, state = altered(chance, genuine.question.state, other.question.state)
                        sign_in(genuine.user)
                        rounds.append(asyncio.create_task(answer_to(client, genuine.question.prefix, state)))
                        tries.append((kind, state, genuine.question.state, other.question.state))
                        kinds[kind] += 1
                    answers = await asyncio.gather(*rounds)
                    told.update(answer == FROZEN for answer in answers)
                    if set(answers) != {FROZEN} or passed != before or not REASONS.issuperset(logged):
                        # Keys and nonces are new each time, so the seed alone would not bring this token back.
                        pytest.fail(
                            f"up to number {kinds.total()} of SEED={SEED}, {passed - before} calls were let pass, and "
                            f"{logged} was logged. Kind, altered state, the one it was made of, another one; answer:\n"
                            + "\n".join(
                                f"{tried!r:.4000}; {answer}" for tried, answer in zip(tries, answers, strict=True)
                            )
                        )
                    reasons.update(logged)
                    logged.clear()
                    if kinds.total() == TOKENS // 10:
                        at_first = resident()
                for each in held:  # nothing but the alteration stood in their way
                    sign_in(each.user)
                    bucket.reset(["logs/1", "tmp/1"])
                    done = await attacks.confirm(client, each.question)
                    assert attacks.text_of(done).startswith("Purged ")
                    assert bucket.keys(each.question.prefix) == []
                assert passed == before + len(held)
            grown = resident() - at_first
            bucket.reset(["logs/1"])
            assert (await present(client, "logs/", None))["inputRequests"], "null is as good as absent: it asks"
            sign_in("alice")
            hers = await attacks.ask(client, "logs/")
            sign_in("bob")
            with pytest.raises(MCPError):
                await attacks.confirm(client, hers)  # so what was spliced was of two principals
    assert alarms == []
    assert grown < GROWTH
    assert kinds.total() == reasons.total() == told[True] == TOKENS
    print(
        f"\n{codec}: {TOKENS} altered tokens, none accepted; {dict(reasons)}; grown by {grown >> 10} KiB\n{dict(kinds)}"
    )
    record_property("proved", ("tokens tried", TOKENS))
    record_property("proved", ("tokens accepted", 0))
