"""The board marks each attack by what happened: with a defense taken away, the mark is another one."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import anyio
import evidence
import nbformat
import pytest
from mcp import Client
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from labkit import attacks, board, janitor, victims
from labkit.attacks import Question, ask, confirm, spellings, verdict
from labkit.bucket import Bucket
from labkit.checks import logged_reasons
from labkit.errors import LabError, OpenBaoUnavailable
from labkit.figures import attack_board as figure
from labkit.lab import Lab
from labkit.single_use import SingleUse
from labkit.victims import DEFENSES, EPHEMERAL, KEYS, NOTHING, TEN_LINES, Victim

pytestmark = pytest.mark.anyio
GOES = board.THROUGH
NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks/07-attack-board.ipynb"
SHARED = ("ring", "envelope", "transit", TEN_LINES)
BOUND = ("cross-user", "cross-tool", "cross-carrier", "other arguments")
Table = dict[str, dict[str, str]]
FORGED = ("downgrade", "altered", "spliced")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def whole(lab: Lab) -> Table:
    table = await board.board(lab)
    return {attack: {column: verdict.layer for column, verdict in row.items()} for attack, row in table.items()}


def cells(whole: Table, attack: str, single: bool, defenses: tuple[str, ...] = DEFENSES) -> list[str]:
    return [whole[attack][f"{d} + single use" if single else d] for d in defenses]


async def test_nothing_stops_nothing_and_a_claim_alone_stops_all_but_another_service(
    whole: Table,
) -> None:
    assert {whole[attack][NOTHING] for attack in whole} == {GOES, board.NONE}
    alone = {attack: row[f"{NOTHING} + single use"] for attack, row in whole.items()}
    assert {layer: [a for a in alone if alone[a] == layer] for layer in ("claim", "plan", GOES, board.NONE)} == {
        "claim": ["downgrade", "altered", "expired", "replayed", "raced", "twin past a denylist"],
        "plan": ["cross-user", "cross-tool", "cross-carrier", "other arguments", "spliced", "stolen claim"],
        GOES: ["cross-service"],  # a plan names its tool, arguments and user, and no service
        board.NONE: ["stolen key"],
    }


@pytest.mark.parametrize("single", [False, True])
async def test_every_seal_stops_what_is_forged_bound_or_late(whole: Table, single: bool) -> None:
    for attack in BOUND:
        assert set(cells(whole, attack, single, (EPHEMERAL, *SHARED))) == {"binding"}, attack
    for attack in FORGED:
        assert set(cells(whole, attack, single, (EPHEMERAL, *SHARED))) == {"seal"}, attack
    assert set(cells(whole, "expired", single, (EPHEMERAL, *SHARED))) == {"expiry"}
    assert set(cells(whole, "cross-service", single, SHARED)) == {"binding"}
    assert cells(whole, "cross-service", single, (EPHEMERAL,)) == ["seal"], "another process has another key"


async def test_no_seal_stops_what_was_used_before_and_single_use_always_does(whole: Table) -> None:
    for attack in ("replayed", "raced"):
        assert set(cells(whole, attack, single=False)) == {GOES}
        assert set(cells(whole, attack, single=True)) == {"claim"}


async def test_a_twin_gets_past_a_denylist_where_the_codec_takes_it(whole: Table) -> None:
    row = dict(zip(DEFENSES, cells(whole, "twin past a denylist", single=False), strict=True))
    assert {defense for defense, layer in row.items() if layer == GOES} == {NOTHING, TEN_LINES}
    assert {row[defense] for defense in (EPHEMERAL, "ring", "envelope", "transit")} == {"seal"}
    assert whole["twin past a denylist"][f"{TEN_LINES} + single use"] == "claim", "one claim behind all spellings"


async def test_what_is_stolen(whole: Table) -> None:
    assert set(cells(whole, "stolen claim", single=False)) == {board.NONE}
    assert set(cells(whole, "stolen claim", True, (EPHEMERAL, *SHARED))) == {"seal"}
    assert set(cells(whole, "stolen key", False, (EPHEMERAL, *SHARED))) == {GOES}
    assert set(cells(whole, "stolen key", True, (EPHEMERAL, *SHARED))) == {"plan"}


async def marked(victim: Victim, attack: str) -> str:
    return (await board.play(attack, victim)).layer


async def test_what_does_not_apply_says_why(lab: Lab) -> None:
    assert await board.play("stolen claim", Victim(lab, "ring", False)) == (board.NONE, "there are no claims")
    assert await board.play("stolen key", Victim(lab, NOTHING, True)) == (board.NONE, "there is no key")


async def test_a_boundary_that_is_gone_shows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same victim, whose boundary lets everything in as it came."""
    victim = Victim(lab, "ring", False)
    assert await marked(victim, "cross-user") == "binding"
    real = victim.server

    def open_door(*args: object, **options: object) -> object:
        server = real(*args, **options)  # type: ignore[arg-type]
        server.middleware[:] = [m for m in server.middleware if not isinstance(m, RequestStateBoundary)]
        return server

    monkeypatch.setattr(victim, "server", open_door)
    assert {await marked(victim, attack) for attack in (*BOUND, *FORGED, "expired", "cross-service")} == {GOES}


async def test_a_plan_that_nobody_checks_shows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = Victim(lab, NOTHING, True)
    monkeypatch.setattr(janitor, "_keys", lambda plan, binding: plan["keys"])
    for attack in ("cross-user", "cross-tool", "other arguments", "spliced", "stolen claim"):
        assert await marked(victim, attack) == GOES, attack


async def test_a_claim_that_is_not_consumed_shows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: dict[str, dict[str, object]] = {}
    issue = victims.Noted.issue

    def remember(self: victims.Noted, plan: dict[str, object]) -> str:
        claim = issue(self, plan)
        plans[claim] = plan
        return claim

    monkeypatch.setattr(victims.Noted, "issue", remember)
    monkeypatch.setattr(SingleUse, "redeem", lambda self, claim: plans[claim])
    victim = Victim(lab, "ring", True)
    assert await marked(victim, "replayed") == GOES
    assert await marked(victim, "raced") == GOES


async def test_a_server_without_expiry_principal_or_audience_shows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = Victim(lab, "ring", False)

    def lenient(**options: object) -> RequestStateSecurity:
        return RequestStateSecurity(codec=options["codec"])  # type: ignore[arg-type]

    monkeypatch.setattr(victims, "RequestStateSecurity", lenient)
    assert {await marked(victim, attack) for attack in ("expired", "cross-user", "cross-service")} == {GOES}


async def test_an_outage_is_no_defense(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(self: object, token: str) -> bytes:
        raise OpenBaoUnavailable("away")

    victim = Victim(lab, "transit", False)
    monkeypatch.setattr("labkit.transit.TransitCodec.unseal", away)
    with pytest.raises(AssertionError, match="no defense has refused it, but"):
        await board.play("altered", victim)
    with pytest.raises(AssertionError, match="the honest round ended with"):
        await board.play("replayed", victim)
    with pytest.raises(AssertionError, match="behind transit, the honest round ended with"):
        await board.honest(victim)


async def test_a_server_that_refuses_everything_is_not_safe(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def dead(self: object, claim: str) -> dict[str, object]:
        raise janitor.AlreadyRedeemed("no")

    monkeypatch.setattr(SingleUse, "redeem", dead)
    with pytest.raises(AssertionError, match=r"behind ring \+ single use, the honest round ended with 'REFUSED"):
        await board.board(lab, ["altered"], ["ring"])


async def test_a_tool_that_merely_fails_is_no_defense(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = Victim(lab, NOTHING, False)
    monkeypatch.setattr(Bucket, "delete", lambda self, key: 1 // 0)
    monkeypatch.setattr(victims.Watched, "delete", lambda self, key: 1 // 0)
    with pytest.raises(AssertionError, match="no defense has refused it"):
        await board.play("cross-user", victim)


async def test_the_denylist_has_to_be_there(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lets_all_in(self: object, context: object, call_next: object) -> object:
        return await call_next(context)  # type: ignore[operator]

    monkeypatch.setattr(victims.Denylist, "__call__", lets_all_in)
    with pytest.raises(AssertionError, match="the denylist let the same string through"):
        await board.play("twin past a denylist", Victim(lab, "ring", False))


async def test_a_state_of_this_year_can_be_brought_back_over_the_protocol_of_the_last(lab: Lab) -> None:
    """Nor does a downgrade take the boundary away: it is in front of the tool in every version."""
    victim = Victim(lab, "ring", True)
    victim.bucket.restock()
    async with Client(victim.server()) as client:
        question = await ask(client, "logs/")
    said = await verdict(attacks.downgrade(victim.server(), question.state, "logs/"))
    assert (said.startswith("Purged 2"), victim.bucket.keys()) == (True, ["secrets/root.key"])


async def test_a_downgrade_speaks_the_old_protocol_and_the_boundary_is_in_front_all_the_same(lab: Lab) -> None:
    server, versions = Victim(lab, "ring", True).server(), []

    async def listen(context: Any, call_next: Any) -> Any:
        versions.append((context.method, context.protocol_version))
        return await call_next(context)

    server.middleware.insert(0, listen)
    with logged_reasons() as reasons:
        await verdict(attacks.downgrade(server, "{}", "logs/"))
    assert dict(versions)["tools/call"] == "2025-11-25"
    assert reasons == ["malformed"]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("defense", DEFENSES)
async def test_a_no_purges_nothing(lab: Lab, defense: str, single: bool) -> None:
    victim = Victim(lab, defense, single)
    victim.bucket.restock()
    async with Client(victim.server()) as client:
        said = await verdict(attacks.decline(client, await ask(client, "logs/")))
    assert said.startswith("Declined")
    assert not victim.bucket.deletions


async def test_another_service_has_a_bucket_of_its_own(lab: Lab) -> None:
    victim = Victim(lab, "ring", False)
    victim.bucket.restock()
    async with Client(victim.server(audience="another")) as client:
        assert (await verdict(confirm(client, await ask(client, "logs/")))).startswith("Purged 2")
    assert victim.bucket.keys() == sorted(KEYS)


async def test_the_twin_that_parks_nothing_refuses_what_it_cannot_read(lab: Lab) -> None:
    victim = Victim(lab, NOTHING, False)
    async with Client(victim.server()) as client:
        for state in ("", "[]", "null", "{}", "{", "7"):
            said = await verdict(confirm(client, Question("logs/", state)))
            assert said == janitor.REFUSALS["foreign state"], state


async def test_an_attack_that_is_none_is_named(lab: Lab) -> None:
    with pytest.raises(LabError, match="There is no attack 'luck': use one of cross-user, cross-service"):
        await board.play("luck", Victim(lab, NOTHING, False))


def test_a_defense_that_is_none_is_named(lab: Lab) -> None:
    with pytest.raises(LabError, match="There is no defense 'rot13': use one of nothing; ephemeral; ring"):
        Victim(lab, "rot13", False)


@pytest.fixture
def tokens(lab: Lab) -> list[str]:
    codecs = [Victim(lab, defense, False).codec for defense in (EPHEMERAL, "transit", TEN_LINES)]
    return [codec.seal(b"x" * n) for codec in codecs if codec is not None for n in range(3)] + ['{"files": []}']


def test_a_spelling_is_another_string(tokens: list[str]) -> None:
    for token in tokens:
        assert token not in spellings(token)
        assert len(set(spellings(token))) == len(spellings(token)) >= 1


async def test_layers_stand_in_the_order_in_which_a_round_meets_them(lab: Lab) -> None:
    """Each round is wrong for a layer and for those behind it; of several tries, the one that got furthest counts."""
    victim = Victim(lab, "ring", True)
    victim.bucket.restock()
    with logged_reasons() as reasons:
        async with Client(victim.server(ttl=0.05)) as client:
            late = await ask(client, "logs/")
            await anyio.sleep(0.06)
            await verdict(attacks.tamper_one_byte(client, Question("secrets/", late.state)))
            await verdict(attacks.swap_arguments(client, late, "secrets/"))
        async with Client(victim.server()) as client:
            used = await ask(client, "logs/")
            await confirm(client, used)
            await verdict(attacks.swap_arguments(client, used, "secrets/"))
            said = await verdict(attacks.replay(client, used))
    assert [board._LAYER_OF[reason] for reason in reasons] == ["seal", "expiry", "binding"]
    assert said == janitor.REFUSALS["already redeemed"]
    assert board.LAYERS == ("seal", "expiry", "binding", "tool", "claim", "plan")


def test_the_notebook_has_a_row_for_each_attack_and_names_the_function_that_it_plays() -> None:
    rows = re.findall(
        r"^\| ([a-z -]+) \| .+ \| `(\w+)` \|$", evidence.prose(nbformat.read(NOTEBOOK, as_version=4)), re.M
    )
    assert [row for row, _ in rows] == list(board.ATTACKS)
    for row, function in rows:
        assert f"attacks.{function}(" in inspect.getsource(board.ATTACKS[row])


def test_the_picture_has_a_group_without_single_use_and_one_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(figure, "show", lambda picture, alt: drawn.append(picture))
    row = {name: board.Verdict(GOES, "") for name in ("ring", "ten-line transit", "ring + single use")}
    figure.attack_board({"altered": row}, "A finding")
    groups = {
        axes.get_title(loc="left"): [tick.get_text() for tick in axes.get_xticklabels()] for axes in drawn[0].axes
    }
    assert groups == {"without single use": ["ring", "ten-line\ntransit"], "with single use": ["ring"]}


def test_the_picture_says_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(figure, "show", lambda _, alt: shown.append(alt))
    row = {"none": board.Verdict(GOES, ""), "ring": board.Verdict("seal", ""), "other": board.Verdict("seal", "")}
    figure.attack_board({"altered": row}, "A finding")
    figure.attack_board({layer: {"ring": board.Verdict(layer, "")} for layer in (*board.LAYERS, board.NONE)}, "All")
    assert shown[0] == "A finding. altered: went through: none, seal: ring, other."
    assert all(f"{layer}: {layer}: ring" in shown[1] for layer in (*board.LAYERS, board.NONE))
