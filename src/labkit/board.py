"""The attack board: every attack against every defense, each cell played on the real thing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from mcp import Client

from labkit import attacks
from labkit.attacks import Question, ask, confirm, readable, verdict
from labkit.checks import log_lines, logged_reasons
from labkit.errors import LabError
from labkit.janitor import NAME, REFUSALS, TOOL
from labkit.lab import Lab
from labkit.victims import ARCHIVE, DEFENSES, DENIED, NOTHING, TEN_LINES, Victim

THROUGH, NONE = "went through", "not applicable"
LAYERS = ("seal", "expiry", "binding", "tool", "claim", "plan")
"""What can stop an attack, in the order in which a round meets it."""
_LAYER_OF = {
    **dict.fromkeys(("malformed", "unknown key", "seal", "non-string requestState"), "seal"),
    **dict.fromkeys(("expired", "minted in the future"), "expiry"),
    **dict.fromkeys(("request binding", "audience", "principal", "principal drift"), "binding"),
    "foreign state": "tool",
    "already redeemed": "claim",
    "wrong plan": "plan",
}
_FROZEN = "error -32602: Invalid or expired requestState"
_LOGS, _SECRETS = "logs/", "secrets/"
_ROOT = "secrets/root.key"


class Verdict(NamedTuple):
    """What became of an attack.

    Attributes:
        layer: one of `LAYERS`, or "went through", or "not applicable".
        why: the reasons of those who refused, or what was deleted, or why the attack has no meaning here.
    """

    layer: str
    why: str


class _Scene:
    """One attack on one victim: who is connected, what was allowed, and what was said to the attacker."""

    def __init__(self, victim: Victim, stack: AsyncExitStack) -> None:
        self.victim = victim
        self._stack = stack
        self.allowed: Counter[str] = Counter()
        self.said: list[str] = []

    async def client(self, user: str = "alice", **options: Any) -> Client:
        return await self._stack.enter_async_context(Client(self.victim.server(user, **options)))

    async def try_(self, move: Awaitable[Any]) -> None:
        self.said.append(await verdict(move))

    def allow(self, prefix: str) -> None:
        """Note that the user who was asked about these objects has said yes: once."""
        self.allowed.update(self.victim.bucket.keys(prefix))


async def _cross_user(scene: _Scene) -> str | None:
    leaked = await ask(await scene.client("alice"), _LOGS)
    await scene.try_(attacks.cross_user(await scene.client("mallory"), leaked))
    return None


async def _cross_service(scene: _Scene) -> str | None:
    staging = await scene.client(audience=f"{NAME}-staging")
    await scene.try_(attacks.cross_service(await scene.client(), staging, _LOGS))
    return None


async def _cross_tool(scene: _Scene) -> str | None:
    await scene.try_(attacks.cross_tool(await scene.client(), ARCHIVE, _LOGS))
    return None


async def _cross_carrier(scene: _Scene) -> str | None:
    client = await scene.client()
    prompt = client.session.get_prompt(TOOL, {"prefix": _LOGS}, allow_input_required=True)
    await scene.try_(attacks.cross_carrier(client, prompt, _LOGS))
    resource = client.session.read_resource("bucket://logs", allow_input_required=True)
    await scene.try_(attacks.cross_carrier(client, resource, _LOGS))
    return None


async def _downgrade(scene: _Scene) -> str | None:
    notes = {"claim": "s." + 24 * "A"} if scene.victim.single_use else {"files": [_ROOT]}
    state = json.dumps({"step": "confirm", **notes})
    await scene.try_(attacks.downgrade(scene.victim.server("mallory"), state, _SECRETS))
    return None


async def _altered(scene: _Scene) -> str | None:
    client = await scene.client()
    scene.allow(_LOGS)
    await scene.try_(attacks.alter(client, await ask(client, _LOGS), _ROOT))
    return None


async def _other_arguments(scene: _Scene) -> str | None:
    client = await scene.client()
    scene.allow(_LOGS)  # whoever looks at the call sees these
    await scene.try_(attacks.swap_arguments(client, await ask(client, _SECRETS), _LOGS))
    return None


async def _expired(scene: _Scene) -> str | None:
    only_the_claim = scene.victim.defense == NOTHING and scene.victim.single_use
    client = await scene.client(ttl=0.05)
    await scene.try_(attacks.come_late(client, await ask(client, _LOGS), 1.05 if only_the_claim else 0.06))
    return None


async def _spliced(scene: _Scene) -> str | None:
    client = await scene.client()
    scene.allow(_LOGS)
    await scene.try_(attacks.splice(client, await ask(client, _LOGS), await ask(client, _SECRETS)))
    return None


async def _ask_for_spare_bits(client: Client) -> Question:
    """A question whose state could end in another character, if a codec did not mind the bits that decoding drops."""
    for _ in range(100):  # how long a state is varies with the digits of the time in it
        question = await ask(client, _LOGS)
        body = question.state.rstrip("=").rpartition(":")[2].removeprefix("v1.")
        if readable(question.state) is not None or len(body) % 4:
            return question
    raise AssertionError("no state had bits to spare in its last character")


async def _used(scene: _Scene, question: Question, client: Client) -> Question:
    """The question, honestly confirmed, once, before other objects came under the same keys."""
    said = await verdict(confirm(client, question))
    _insist("Purged 2" in said, f"the honest round ended with {said!r}")
    scene.victim.bucket.restock()
    return question


async def _replayed(scene: _Scene) -> str | None:
    client = await scene.client()
    await scene.try_(attacks.replay(client, await _used(scene, await ask(client, _LOGS), client)))
    return None


async def _raced(scene: _Scene) -> str | None:
    client = await scene.client()
    scene.allow(_LOGS)
    scene.said += await attacks.race(client, await ask(client, _LOGS))
    return None


async def _twin(scene: _Scene) -> str | None:
    client = await scene.client(denylist=True)
    used = await _used(scene, await _ask_for_spare_bits(client), client)
    said = await verdict(attacks.replay(client, used))
    _insist(DENIED in said, f"the denylist let the same string through: {said!r}")
    scene.said += await attacks.present_twins(client, used)
    return None


async def _stolen_claim(scene: _Scene) -> str | None:
    if scene.victim.claims is None:
        return "there are no claims"
    await ask(await scene.client("alice"), _LOGS)
    mallory = await scene.client("mallory")
    await scene.try_(attacks.plant_claim(mallory, scene.victim.claims.claims[-1], _LOGS))
    return None


async def _stolen_key(scene: _Scene) -> str | None:
    codec = scene.victim.codec
    if codec is None:
        return "there is no key"
    leaked = await ask(await scene.client("alice"), _LOGS)
    mallory = await scene.client("mallory")
    await scene.try_(attacks.reseal(mallory, await ask(mallory, _LOGS), leaked, codec))
    return None


ATTACKS: dict[str, Callable[[_Scene], Awaitable[str | None]]] = {
    "cross-user": _cross_user,
    "cross-service": _cross_service,
    "cross-tool": _cross_tool,
    "cross-carrier": _cross_carrier,
    "downgrade": _downgrade,
    "altered": _altered,
    "other arguments": _other_arguments,
    "expired": _expired,
    "spliced": _spliced,
    "replayed": _replayed,
    "raced": _raced,
    "twin past a denylist": _twin,
    "stolen claim": _stolen_claim,
    "stolen key": _stolen_key,
}
"""The rows of the board, each with what sets its scene and makes its move. They return why they do not apply, if so."""


async def play(attack: str, victim: Victim) -> Verdict:
    """Play one attack on one victim, and tell what stopped it: from the bucket and from what was said and logged.

    An attack went through when an object was deleted that nobody who was asked had agreed to, or one more often than
    agreed. Of several tries, the one that got furthest names the layer.

    Raises:
        LabError: there is no such attack.
        AssertionError: nothing was deleted, and yet no defense refused it: an outage is no defense.
    """
    if attack not in ATTACKS:
        raise LabError(f"There is no attack {attack!r}: use one of {', '.join(ATTACKS)}.")
    move = ATTACKS[attack]
    victim.bucket.restock()
    with logged_reasons() as reasons, log_lines("labkit"):
        try:
            async with AsyncExitStack() as stack:
                scene = _Scene(victim, stack)
                unfit = await move(scene)
        except ExceptionGroup as error:
            raise attacks.innermost(error) from None
    if unfit is not None:
        return Verdict(NONE, unfit)
    harm = victim.bucket.deletions - scene.allowed
    if harm:
        return Verdict(THROUGH, f"deleted: {', '.join(f'{key} ({n} too often)' for key, n in sorted(harm.items()))}")
    found = _refusals(scene.said, reasons, victim)
    layer = max((_LAYER_OF[reason] for reason in found), key=LAYERS.index)
    return Verdict(layer, ", ".join(dict.fromkeys(found)))


def _refusals(said: Iterable[str], logged: list[str], victim: Victim) -> list[str]:
    """Why the attacker's rounds were refused: what the boundary logged, and what the tool said."""
    told = {sentence: reason for reason, sentence in REFUSALS.items()}
    answers = [answer for answer in said if not answer.startswith("Purged")]
    at_boundary = [answer for answer in answers if answer == _FROZEN]
    _insist(len(at_boundary) == len(logged), f"{len(at_boundary)} refusals by the boundary, and the log has {logged}")
    found = [told.get(answer, answer) for answer in answers if answer != _FROZEN]
    # Ten lines let the error of OpenBao pass, so the SDK calls it that. From any other codec it means an outage.
    found += ["seal" if reason == "codec error" and victim.defense == TEN_LINES else reason for reason in logged]
    _insist(bool(found) and all(reason in _LAYER_OF for reason in found), f"no defense has refused it, but {found}")
    return found


def _insist(fact: bool, otherwise: str) -> None:
    if not fact:
        raise AssertionError(otherwise)


async def honest(victim: Victim) -> None:
    """Play an honest round, so that a server which refuses everything does not pass for a safe one.

    Raises:
        AssertionError: it did not delete what was confirmed, and nothing else.
    """
    victim.bucket.restock()
    async with Client(victim.server()) as client:
        said = await verdict(confirm(client, await ask(client, _LOGS)))
    left = victim.bucket.keys()
    _insist(left == [_ROOT], f"behind {victim.name}, the honest round ended with {said!r} and left {left}")


async def board(
    lab: Lab, names: Iterable[str] = tuple(ATTACKS), defenses: Iterable[str] = DEFENSES
) -> dict[str, dict[str, Verdict]]:
    """Play every attack on every defense, without and with single use.

    Args:
        lab: where keys lie and plans are parked.
        names: of `ATTACKS`.
        defenses: of `DEFENSES`.

    Returns:
        For each attack, the verdict for each defense.

    Raises:
        AssertionError: an honest round does not work, or an attack failed and no defense says that it was the one.
    """
    names = list(names)
    columns = [Victim(lab, defense, single) for single in (False, True) for defense in defenses]
    table: dict[str, dict[str, Verdict]] = {name: {} for name in names}
    for victim in columns:
        await honest(victim)
        for name in names:
            table[name][victim.name] = await play(name, victim)
    return table
