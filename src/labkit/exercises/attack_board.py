"""The exam of notebook 07, a janitor with three planted weaknesses; and the judges of its exercises."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import hvac
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from labkit.bucket import Bucket
from labkit.checks import log_lines, logged_reasons
from labkit.exercises.judge import Judge
from labkit.forensics import WORDS, Event, Unseen, events
from labkit.janitor import NAME, QUESTION, REFUSALS
from labkit.lab import Lab
from labkit.single_use import AlreadyRedeemed, SingleUse
from labkit.victims import Watched

Attack = Callable[[Client, Client, Bucket], Awaitable[Any]]
"""A reader's: takes sessions of Alice and of Mallory, and the bucket, to which anybody may upload."""
_WEAKNESSES = frozenset("abc")
_TRIES = 3  # a race is not won every time
_PATIENCE = 20  # seconds; an attack may wait, but not for ever
_MOST = 50  # attacks
_USED_UP = REFUSALS["already redeemed"]


class Slow(Watched):
    """A bucket that takes its time, as an object store over a network does."""

    def delete(self, key: str) -> bool:
        time.sleep(0.01)  # the tool runs in a thread of its own
        return super().delete(key)


def examined(
    user: str,
    sealing: RequestStateSecurity,
    parking: hvac.Client,
    bucket: Bucket,
    weaknesses: frozenset[str] = _WEAKNESSES,
) -> MCPServer:
    """Return the janitor of the exam, as one user meets it. It seals, and claims are used once; what is wrong?

    Args:
        user: who is signed in.
        sealing: how `requestState` is sealed.
        parking: logged in as the role `confirmations`.
        bucket: what is purged.
        weaknesses: those that are in it; the exam has all three, and without any it is the standard to compare with.
    """
    principal = None if "a" in weaknesses else user
    security = RequestStateSecurity(codec=sealing.codec, ttl=sealing.ttl, bind_principal=lambda _: principal)
    server = MCPServer(NAME, request_state_security=security, log_level="WARNING")
    claims = SingleUse(parking)
    use = partial(_look_and_use, parking) if "b" in weaknesses else _use

    @server.tool(structured_output=False)
    def purge_objects(prefix: str, ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is None:
            keys = bucket.keys(prefix)
            return _question({"claim": claims.issue({"keys": keys}), "keys": keys})
        notes = json.loads(ctx.request_state)
        response = (ctx.input_responses or {}).get(QUESTION)
        if not isinstance(response, ElicitResult):
            return _question({**notes, "claim": claims.issue({"keys": notes["keys"]})} if "c" in weaknesses else notes)
        if (response.action, response.content) != ("accept", {"confirm": True}):
            with suppress(AlreadyRedeemed):
                claims.burn(notes["claim"])
            return "Declined: nothing was purged."
        try:
            keys = use(claims, notes)
        except AlreadyRedeemed:
            return _USED_UP
        gone = [key for key in keys if bucket.delete(key)]
        if "b" in weaknesses:
            with suppress(AlreadyRedeemed):
                claims.burn(notes["claim"])
        return f"Purged {len(gone)} object(s)"

    return server


def _use(claims: SingleUse, notes: dict[str, Any]) -> list[str]:
    keys: list[str] = claims.redeem(notes["claim"])["keys"]
    return keys


def _look_and_use(parking: hvac.Client, _: SingleUse, notes: dict[str, Any]) -> list[str]:
    answer = parking.adapter.post("/v1/sys/wrapping/lookup", json={"token": notes["claim"]}, raise_exception=False)
    if not isinstance(answer, dict):
        raise AlreadyRedeemed("OpenBao does not know the claim")
    keys: list[str] = notes["keys"]
    return keys


def _question(notes: dict[str, Any]) -> InputRequiredResult:
    schema: dict[str, Any] = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}
    form = ElicitRequestFormParams(message=f"Purge {len(notes['keys'])} object(s)?", requested_schema=schema)
    return InputRequiredResult(input_requests={QUESTION: ElicitRequest(params=form)}, request_state=json.dumps(notes))


async def sit(lab: Lab, attacks: Sequence[Attack]) -> dict[str, Any]:
    """Play a reader's attacks on the janitor of the exam, and count the weaknesses that they find.

    An attack finds a weakness when, under the very same moves, a janitor with this one weakness deletes something that
    a janitor without any does not. Being refused may raise whatever it likes; the bucket decides. An attack that once
    takes longer than 20 s is not played again.

    Args:
        lab: where keys lie and plans are parked.
        attacks: a list or tuple of coroutine functions `attack(alice, mallory, bucket)`, 50 at most.

    Returns:
        How many attacks there were (None if that was no such list), how many weaknesses they found, and what went
        wrong in them, other than a refusal.
    """
    if not isinstance(attacks, list | tuple) or len(attacks) > _MOST:
        return {"attacks": None, "found": 0, "broken": []}
    parking = lab.client("confirmations")
    sealing = RequestStateSecurity.ephemeral(ttl=120)
    found: set[str] = set()
    broken: list[str] = []

    async def deletes(attack: Attack, weaknesses: frozenset[str]) -> tuple[Counter[str], bool]:
        """What was deleted, and whether the attack came to its end in time."""
        bucket = Slow()
        bucket.restock()
        servers = [examined(user, sealing, parking, bucket, weaknesses) for user in ("alice", "mallory")]
        with logged_reasons(), log_lines("labkit"):
            async with AsyncExitStack() as stack:
                alice, mallory = [await stack.enter_async_context(Client(server)) for server in servers]
                limit = asyncio.timeout(_PATIENCE)
                try:
                    async with limit:
                        await attack(alice, mallory, bucket)
                except MCPError:
                    pass  # refused by the boundary
                except Exception as error:
                    raised = f"ended with {type(error).__name__}: {error}"
                    broken.append(f"took longer than {_PATIENCE} s" if limit.expired() else raised)
        return bucket.deletions, not limit.expired()

    async def play(attack: Attack) -> None:
        standard, in_time = await deletes(attack, frozenset())
        for weakness in sorted(_WEAKNESSES):
            for _ in range(_TRIES):
                if not in_time:
                    return
                deleted, in_time = await deletes(attack, frozenset(weakness))
                if deleted - standard:
                    found.add(weakness)
                    break

    for attack in attacks:
        await play(attack)
    return {"attacks": len(attacks), "found": len(found), "broken": list(dict.fromkeys(broken))}


def _exam(outcome: dict[str, Any]) -> tuple[bool, str]:
    attacks, found, broken = outcome["attacks"], outcome["found"], outcome["broken"]
    if attacks is None:
        return False, f"Give `sit` a list of your attacks, {_MOST} at most, such as `sit(lab, [my_attack])`."
    told = f"Your {attacks} attack{'' if attacks == 1 else 's'} found {found} of {len(_WEAKNESSES)} weaknesses."
    if found == len(_WEAKNESSES):
        return True, told
    hint = "Ask of each row of the board what it would do here, and what a client may send that no honest one does."
    if not attacks:
        hint = "Write an attack: it takes Alice's session, Mallory's, and the bucket."
    elif broken:
        hint = f"One of your attacks {broken[0][:130]}."
    return False, f"{told} {hint}"


def explain_each(explain: Callable[[Event, list[Event]], Any], log: Unseen) -> list[tuple[str, Any]]:
    """Ask a reader's `explain(refused, log)` about each refusal of an unseen log; an exception is an answer, too.

    Returns:
        For each refusal, what it was, and what the function said.
    """
    seen = events(log.records)
    answers: list[tuple[str, Any]] = []
    for truth, refused in zip(log.truth, log.refusals, strict=True):
        try:
            answers.append((truth, explain(refused, list(seen))))
        except Exception as error:
            answers.append((truth, error))
    return answers


_MISSED = {
    "replayed": "Was there a `consumed` event for this claim, at `sys/wrapping/unwrap`?",
    "after revocation": "Look at the path of what consumed the claim: not everything that ends a claim redeems it.",
    "expired": "No record says that a claim expires: compare the times of refusal and issue, and the ttl.",
    "guessed": "Was the claim ever issued? Only an `issued` event says so.",
}


def _forensics(answers: list[tuple[str, Any]]) -> tuple[bool, str]:
    if len(answers) < len(_MISSED):
        return False, "Give what explain_each returns for a whole log."
    for number, (truth, said) in enumerate(answers, 1):
        told = f"Refusal {number} of {len(answers)}"
        if isinstance(said, Exception):
            return False, f"{told}: your function raised {type(said).__name__}: {str(said)[:80]}. {_MISSED[truth]}"
        if said not in WORDS:
            return False, f"{told}: your function said {_shown(said)}; use one of {', '.join(_MISSED)}."
        if said != truth:
            return False, f"{told} is not {said!r}. {_MISSED[truth]}"
    return True, f"You explained {len(answers)} of {len(answers)} refusals."


def _shown(said: Any) -> str:
    try:
        return repr(said)[:40]
    except Exception:  # an int of thousands of digits, above all
        return f"a value of type {type(said).__name__}"


JUDGES: dict[str, Judge] = {"07.1": _forensics, "07.2": _exam}
