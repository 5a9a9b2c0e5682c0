"""The storage janitor purges what was confirmed, once, and nothing else."""

from __future__ import annotations

import asyncio
import collections
import json
import logging
import os
import re
import signal
import threading
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult
from starlette.middleware.authentication import AuthenticationMiddleware

from labkit import attacks, replicas
from labkit.attacks import Question, text_of
from labkit.bucket import Bucket
from labkit.janitor import QUESTION, REFUSALS, TOOL, build_janitor
from labkit.key_ring import load_key_ring
from labkit.lab import Lab
from labkit.single_use import SingleUse
from labkit.wire import over_http

pytestmark = pytest.mark.anyio
Result = CallToolResult | InputRequiredResult
YES = {"confirm": True}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def janitor(lab: Lab, bucket: Bucket) -> MCPServer:
    return replicas.replica(lab, bucket)


async def reply(client: Client, question: Question, answers: dict[str, Any] | None) -> Result:
    result: Result = await client.session.call_tool(
        TOOL,
        {"prefix": question.prefix},
        input_responses=answers,
        request_state=question.state,
        allow_input_required=True,
    )
    return result


def accepted(content: Any) -> dict[str, Any]:
    return {QUESTION: ElicitResult(action="accept", content=content)}


def claim_in(lab: Lab, state: str) -> str:
    """The claim inside a sealed state: only the test can open it, with the ring."""
    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")))
    plaintext = json.loads(json.loads(security.codec.unseal(state))["s"])
    assert plaintext.keys() == {"step", "claim"}
    assert plaintext["step"] == "confirm"
    return str(plaintext["claim"])


@pytest.mark.parametrize("codec", replicas.ROLES)
async def test_a_confirmed_purge_deletes_what_the_question_named(lab: Lab, bucket: Bucket, codec: str) -> None:
    asked: list[str] = []

    async def yes(_: object, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content=YES)

    async with Client(replicas.replica(lab, bucket, codec), elicitation_callback=yes) as client:
        result = await client.call_tool(TOOL, {"prefix": "logs/"})
    assert asked == ["Purge 3 object(s) under 'logs/'? logs/1, …"]
    assert text_of(result) == "Purged 3 object(s): logs/1, …"
    assert not result.is_error
    assert bucket.keys() == ["secrets/root.key"]


async def test_the_server_is_the_storage_janitor_with_one_destructive_tool(janitor: MCPServer) -> None:
    assert janitor.name == "storage-janitor"
    async with Client(janitor) as client:
        (tool,) = (await client.list_tools()).tools
    assert tool.name == "purge_objects"
    assert list(tool.input_schema["properties"]) == ["prefix"]
    assert tool.annotations is not None
    assert tool.annotations.destructive_hint


async def test_the_plan_stays_in_openbao_and_the_state_holds_only_the_claim(lab: Lab, janitor: MCPServer) -> None:
    async with Client(janitor) as client:
        question = await attacks.ask(client, "logs/")
    plan = SingleUse(lab.client("confirmations")).redeem(claim_in(lab, question.state))
    assert plan == {
        "tool": "purge_objects",
        "arguments": {"prefix": "logs/"},
        "principal": None,
        "keys": ["logs/1", "logs/2", "logs/3"],
    }


async def test_what_came_after_the_question_survives_and_what_vanished_is_told(
    janitor: MCPServer, bucket: Bucket
) -> None:
    async with Client(janitor) as client:
        question = await attacks.ask(client, "logs/")
        bucket.delete("logs/2")
        bucket.put("logs/new")
        result = await attacks.confirm(client, question)
    assert text_of(result) == "Purged 2 object(s): logs/1, …; 1 had vanished since the question: logs/2"
    assert bucket.keys() == ["logs/new", "secrets/root.key"]


async def test_a_confirmation_works_once(janitor: MCPServer, bucket: Bucket) -> None:
    async with Client(janitor) as client:
        question = await attacks.ask(client, "logs/")
        await attacks.confirm(client, question)
        bucket.put("logs/1")
        result = await attacks.replay(client, question)
    assert text_of(result) == REFUSALS["already redeemed"]
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert bucket.keys("logs/") == ["logs/1"]


@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"confirm": False}),
        ElicitResult(action="decline", content=YES),
    ],
)
async def test_a_no_in_any_form_burns_the_claim_at_once(
    janitor: MCPServer, bucket: Bucket, answer: ElicitResult
) -> None:
    before = bucket.keys()
    async with Client(janitor) as client:
        question = await attacks.ask(client, "logs/")
        result = await reply(client, question, {QUESTION: answer})
        assert text_of(result) == "Declined: nothing was purged, and the confirmation is revoked."
        assert text_of(await attacks.confirm(client, question)) == REFUSALS["already redeemed"]
        again = await reply(client, question, {QUESTION: answer})
        assert "was used up or had expired already" in text_of(again)
    assert bucket.keys() == before


NEITHER = [
    None,
    {},
    {"another_key": ElicitResult(action="accept", content=YES)},
    accepted(None),
    accepted({}),
    accepted({"confirm": "true"}),
    accepted({"confirm": "yes"}),
    accepted({"confirm": 1}),
    accepted({"confirm": 0}),
    accepted({"confirm": None}),
    accepted({"confirm": ["true"]}),
    accepted({"Confirm": True}),
]


@pytest.mark.parametrize("answers", NEITHER)
async def test_neither_a_yes_nor_a_no_asks_again_with_the_same_claim(
    lab: Lab, janitor: MCPServer, bucket: Bucket, answers: dict[str, Any] | None
) -> None:
    before = bucket.keys()
    async with Client(janitor) as client:
        question = await attacks.ask(client, "logs/")
        result = await reply(client, question, answers)
        assert isinstance(result, InputRequiredResult)
        assert result.input_requests is not None
        assert list(result.input_requests) == [QUESTION]
        assert bucket.keys() == before
        again = Question("logs/", str(result.request_state))
        assert claim_in(lab, again.state) == claim_in(lab, question.state)
        assert again.state != question.state, "each round is sealed anew"
        assert text_of(await attacks.confirm(client, again)) == "Purged 3 object(s): logs/1, …"


@given(
    st.dictionaries(
        st.just("confirm") | st.text(max_size=12),
        st.none() | st.booleans() | st.integers() | st.text(max_size=12),
        max_size=3,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_a_true_under_confirm_purges(lab: Lab, content: dict[str, Any]) -> None:
    bucket = Bucket()
    bucket.reset(["logs/1"])

    async def run() -> None:
        async with Client(replicas.replica(lab, bucket)) as client:
            question = await attacks.ask(client, "logs/")
            await reply(client, question, accepted(content))

    anyio.run(run)
    assert (bucket.keys() == []) == (content.get("confirm") is True)


async def test_an_empty_prefix_is_turned_down_before_anything_is_parked(janitor: MCPServer, bucket: Bucket) -> None:
    async with Client(janitor) as client:
        result = await client.session.call_tool(TOOL, {"prefix": ""}, allow_input_required=True)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert text_of(result) == "An empty prefix would purge the whole bucket: name a prefix, such as 'logs/'."
    assert len(bucket.keys()) == 4


@pytest.mark.parametrize("prefix", ["nothing/", "../", "/", "logs/1/../2", "LOGS/", "logs/*", "\x00"])
async def test_a_prefix_without_objects_asks_nothing(janitor: MCPServer, bucket: Bucket, prefix: str) -> None:
    async with Client(janitor) as client:
        result = await client.session.call_tool(TOOL, {"prefix": prefix}, allow_input_required=True)
    assert isinstance(result, CallToolResult)
    assert not result.is_error
    assert text_of(result) == f"Nothing to purge: no object under {prefix!a}."
    assert len(bucket.keys()) == 4


async def test_ten_thousand_objects_make_a_short_question_and_one_purge(janitor: MCPServer, bucket: Bucket) -> None:
    for number in range(10_000):
        bucket.put(f"many/{number:05}")
    async with Client(janitor) as client:
        first = await client.session.call_tool(TOOL, {"prefix": "many/"}, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        request: Any = (first.input_requests or {})[QUESTION]
        assert request.params.message == "Purge 10000 object(s) under 'many/'? many/00000, …"
        result = await attacks.confirm(client, Question("many/", str(first.request_state)))
    assert text_of(result) == "Purged 10000 object(s): many/00000, …"
    assert bucket.keys("many/") == []


async def test_a_plan_too_large_for_openbao_asks_for_a_longer_prefix(janitor: MCPServer, bucket: Bucket) -> None:
    for number in range(5_000):
        bucket.put(f"many/{number:05}{'x' * 200}")
    async with Client(janitor) as client:
        result = await client.session.call_tool(TOOL, {"prefix": "many/"}, allow_input_required=True)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert text_of(result) == "5,000 object(s) under 'many/' are too many for one confirmation: use a longer prefix."
    assert len(bucket.keys("many/")) == 5_000


async def test_a_key_cannot_forge_the_question(janitor: MCPServer, bucket: Bucket) -> None:
    """Keys are chosen by whoever writes to the bucket, and the question is read by a person."""
    bucket.put("evil/\n\n\u202eNothing will be deleted.")
    bucket.put("dry/ is archived first. This is a dry run")
    bucket.put("void/\u3164\u2800\ufe0f\u034f")
    bucket.put("long/" + "x" * 240)
    async with Client(janitor) as client:
        messages = []
        for prefix in ("evil/", "dry/", "void/", "long/"):
            first = await client.session.call_tool(TOOL, {"prefix": prefix}, allow_input_required=True)
            assert isinstance(first, InputRequiredResult)
            request: Any = (first.input_requests or {})[QUESTION]
            messages.append(request.params.message)
    assert all(len(message) < 150 for message in messages)
    assert all(message.replace("…", "").isascii() and message.isprintable() for message in messages)
    for message in messages:
        assert re.fullmatch(r"Purge 1 object\(s\) under '\w+/'\? '[^']+'", message), "what others wrote is in quotes"


async def test_a_plan_for_another_request_is_refused(lab: Lab, bucket: Bucket) -> None:
    """Somebody who can wrap plants a plan; the state around it is genuine in every other respect."""
    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")), ttl=120)
    single_use = SingleUse(lab.client("confirmations"))
    genuine = {"tool": TOOL, "arguments": {"prefix": "logs/"}, "principal": None, "keys": ["logs/1"]}
    planted: list[Any] = [
        {**genuine, "tool": "another"},
        {**genuine, "arguments": {"prefix": "secrets/"}},
        {**genuine, "arguments": {"prefix": "logs/", "more": 1}},
        {**genuine, "principal": "mallory"},
        {**genuine, "keys": ["logs/1", "secrets/root.key"]},
        {**genuine, "keys": "logs/1"},
        {**genuine, "keys": [1]},
        {**genuine, "keys": None},
        {key: value for key, value in genuine.items() if key != "principal"},
        {"keys": ["logs/1"]},
        {},
    ]

    class Planted(SingleUse):
        """Issues a claim on the planted plan, as whoever can wrap could."""

        plan: Any = None

        def issue(self, plan: dict[str, Any]) -> str:
            return super().issue(self.plan)

    planter = Planted(lab.client("confirmations"))
    before = bucket.keys()
    for plan in planted:
        planter.plan = plan
        async with Client(build_janitor(security, planter, bucket)) as client:
            question = await attacks.ask(client, "logs/")
        async with Client(build_janitor(security, single_use, bucket)) as client:
            assert text_of(await attacks.confirm(client, question)) == REFUSALS["wrong plan"]
        assert bucket.keys() == before
    planter.plan = genuine
    async with Client(build_janitor(security, planter, bucket)) as client:
        question = await attacks.ask(client, "logs/")
        assert text_of(await attacks.confirm(client, question)) == "Purged 1 object(s): logs/1"


@pytest.mark.parametrize(
    "state",
    [
        "",
        "{}",
        "[]",
        "null",
        "7",
        '{"step":"confirm"}',
        '{"step":"other","claim":"s.x"}',
        '{"step":"confirm","claim":7}',
        "no json",
    ],
)
async def test_a_verified_state_of_another_shape_is_refused(
    lab: Lab, bucket: Bucket, janitor: MCPServer, state: str
) -> None:
    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")), ttl=120)
    other = MCPServer("storage-janitor", request_state_security=security, log_level="WARNING")

    @other.tool(structured_output=False)
    def purge_objects(prefix: str) -> InputRequiredResult:
        return InputRequiredResult(request_state=state)

    async with Client(other) as client:
        question = await attacks.ask(client, "logs/")
    async with Client(janitor) as client:
        assert text_of(await attacks.confirm(client, question)) == REFUSALS["foreign state"]
    assert len(bucket.keys()) == 4


async def test_the_plan_is_bound_to_the_principal(lab: Lab, bucket: Bucket) -> None:
    """Alice's claim in a state that Mallory's envelope carries: the boundary is content, the plan is not."""
    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")), ttl=120)
    claims: list[str] = []

    class Leaking(SingleUse):
        def issue(self, plan: dict[str, Any]) -> str:
            claims.append(super().issue(plan))
            return claims[-1]

    class Lifted(SingleUse):
        def issue(self, plan: dict[str, Any]) -> str:
            return claims[-1]

    def sign_in(subject: str) -> None:
        token = AccessToken(token=subject, client_id="app", scopes=[], subject=subject)
        auth_context_var.set(AuthenticatedUser(token))

    client_of = lab.client("confirmations")
    sign_in("alice")
    async with Client(build_janitor(security, Leaking(client_of), bucket)) as client:
        await attacks.ask(client, "logs/")
    sign_in("mallory")
    async with Client(build_janitor(security, Lifted(client_of), bucket)) as client:
        question = await attacks.ask(client, "logs/")
        assert text_of(await attacks.confirm(client, question)) == REFUSALS["wrong plan"]
    assert len(bucket.keys()) == 4


def kill(lab: Lab) -> None:
    bao = lab._server._child.process
    os.kill(bao.pid, signal.SIGKILL)
    bao.wait()


async def test_an_outage_deletes_nothing_and_says_so(
    own_lab: Lab, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    before = bucket.keys()
    async with Client(replicas.replica(own_lab, bucket)) as client:
        question, declined = await attacks.ask(client, "logs/"), await attacks.ask(client, "logs/")
        kill(own_lab)
        with caplog.at_level(logging.ERROR, logger="labkit.janitor"):
            said = text_of(await attacks.confirm(client, question))
            assert said.startswith("NOT PURGED: nothing was deleted by this call. OpenBao could not be asked")
            assert "may still be valid" in said
            no = {QUESTION: ElicitResult(action="decline")}
            said = text_of(await reply(client, declined, no))
            assert said.startswith(
                "Declined: this call purged nothing. The confirmation could not be revoked and may stay valid for "
                "up to 120 s. OpenBao could not be asked"
            )
            said = text_of(await client.session.call_tool(TOOL, {"prefix": "logs/"}, allow_input_required=True))
            assert said.startswith("NOT PURGED: nothing was deleted by this call. OpenBao is unreachable")
    assert bucket.keys() == before
    assert sum(record.name == "labkit.janitor" for record in caplog.records) == 3


NO = {QUESTION: ElicitResult(action="decline")}
REVOKED = "Declined: nothing was purged, and the confirmation is revoked."
TOO_LATE = "Declined: this call purged nothing; the confirmation was used up or had expired already."


async def test_a_yes_and_a_no_that_race_through_two_replicas_tell_what_became_of_the_bucket(
    lab: Lab, bucket: Bucket
) -> None:
    """Both ask OpenBao at once, and who is first is left to chance. The bucket is as both are told, either way."""
    gate = threading.Barrier(2)

    class AtOnce(SingleUse):
        def redeem(self, claim: str) -> dict[str, Any]:
            gate.wait(timeout=60)
            return super().redeem(claim)

        def burn(self, claim: str) -> None:
            gate.wait(timeout=60)
            super().burn(claim)

    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")), ttl=120)
    one, other = (build_janitor(security, AtOnce(lab.client("confirmations")), Bucket(bucket.folder)) for _ in range(2))
    ends: collections.Counter[str] = collections.Counter()
    async with Client(one) as a, Client(other) as b:
        for number in range(100):
            bucket.reset(["logs/1", "logs/2", "logs/3", "secrets/root.key"])
            question = await attacks.ask(a, "logs/")
            first, second = (a, b) if number % 2 else (b, a)
            race = attacks.confirm(first, question), reply(second, question, NO)
            yes, no = map(text_of, await asyncio.gather(*race))
            purged = bucket.keys() == ["secrets/root.key"]
            assert purged or len(bucket.keys()) == 4
            assert (yes, no) == (
                ("Purged 3 object(s): logs/1, …", TOO_LATE) if purged else (REFUSALS["already redeemed"], REVOKED)
            )
            ends["purged" if purged else "declined"] += 1
    print(f"\n100 races of a yes and a no: {dict(ends)}")


async def test_a_no_during_an_outage_cannot_revoke_and_says_that_a_yes_may_still_count(
    lab: Lab, bucket: Bucket
) -> None:
    cut_off = lab.client("confirmations")
    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")), ttl=60)
    before = bucket.keys()
    async with Client(build_janitor(security, SingleUse(cut_off, ttl=60), bucket)) as client:
        question = await attacks.ask(client, "logs/")
        cut_off.url = "http://127.0.0.1:1"  # for this replica alone, nobody is there any more
        said = text_of(await reply(client, question, NO))
    assert said.startswith(
        "Declined: this call purged nothing. The confirmation could not be revoked and may stay valid for up to 60 s. "
        "OpenBao could not be asked"
    )
    assert bucket.keys() == before
    async with Client(replicas.replica(lab, bucket)) as elsewhere:
        assert text_of(await attacks.confirm(elsewhere, question)) == "Purged 3 object(s): logs/1, …"
    assert bucket.keys() == ["secrets/root.key"]


class Users:
    """Knows everybody, by a token that is their name."""

    async def verify_token(self, token: str) -> AccessToken:
        return AccessToken(token=token, client_id="one-app", subject=token, scopes=[])


class SignedIn(MCPServer):
    """Serves over HTTP to users who have signed in."""

    def streamable_http_app(self, **options: Any) -> Any:
        app = super().streamable_http_app(**options)
        return AuthenticationMiddleware(AuthContextMiddleware(app), BearerAuthBackend(Users()))


async def test_bobs_own_request_cannot_spend_the_claim_of_alice(
    lab: Lab, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is sealed for Bob, the arguments are the same, and he has signed in: only the claim is not his."""
    issued: list[str] = []

    class MixedUp(SingleUse):
        """Hands out the first claim of all, once it is told to."""

        mixed_up = False

        def issue(self, plan: dict[str, Any]) -> str:
            issued.append(super().issue(plan))
            return issued[0 if self.mixed_up else -1]

    monkeypatch.setattr("labkit.janitor.MCPServer", SignedIn)
    single_use = MixedUp(lab.client("confirmations"))
    server = build_janitor(RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader"))), single_use, bucket)
    before = bucket.keys()
    async with over_http(server, bearer="alice") as (alice, _):
        hers = await attacks.ask(alice, "logs/")
    single_use.mixed_up = True
    async with over_http(server, bearer="bob") as (bob, _):
        his = await attacks.ask(bob, "logs/")
        assert claim_in(lab, his.state) == claim_in(lab, hers.state) == issued[0]
        assert text_of(await attacks.confirm(bob, his)) == REFUSALS["wrong plan"]
        assert bucket.keys() == before
        single_use.mixed_up = False
        assert text_of(await attacks.confirm(bob, await attacks.ask(bob, "logs/"))) == "Purged 3 object(s): logs/1, …"
    bucket.put("logs/1")
    async with over_http(server, bearer="alice") as (alice, _):
        assert text_of(await attacks.confirm(alice, hers)) == REFUSALS["already redeemed"], "her claim is spent, too"
    assert bucket.keys() == ["logs/1", "secrets/root.key"]


async def test_no_claim_and_no_state_is_ever_logged(
    own_lab: Lab, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="labkit"), caplog.at_level(logging.DEBUG, logger="urllib3"):
        async with Client(replicas.replica(own_lab, bucket)) as client:
            questions = [await attacks.ask(client, "logs/") for _ in range(4)]
            claims = [claim_in(own_lab, question.state) for question in questions]
            await attacks.confirm(client, questions[0])
            await attacks.replay(client, questions[0])
            await reply(client, questions[1], {QUESTION: ElicitResult(action="decline")})
            kill(own_lab)
            await attacks.confirm(client, questions[2])
            await reply(client, questions[3], {QUESTION: ElicitResult(action="decline")})
    assert caplog.records
    for secret in [*claims, *(question.state for question in questions)]:
        assert secret not in caplog.text


async def test_a_transit_outage_refuses_the_round_and_deletes_nothing(
    own_lab: Lab, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    before = bucket.keys()
    async with Client(replicas.replica(own_lab, bucket, "transit")) as client:
        question = await attacks.ask(client, "logs/")
        kill(own_lab)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await attacks.confirm(client, question)
    assert bucket.keys() == before
    assert any("outage, not an attack" in record.getMessage() for record in caplog.records)
    assert any(record.getMessage().endswith(": codec error") for record in caplog.records)
    assert not any(question.state in record.getMessage() for record in caplog.records)


async def test_what_cannot_be_deleted_is_told(lab: Lab, bucket: Bucket, janitor: MCPServer) -> None:
    class Stubborn(Bucket):
        def delete(self, key: str) -> bool:
            if key == "logs/2":
                raise PermissionError("read-only")
            return super().delete(key)

    async with Client(replicas.replica(lab, Stubborn(bucket.folder))) as client:
        result = await attacks.confirm(client, await attacks.ask(client, "logs/"))
    assert text_of(result) == (
        "Purged 2 object(s): logs/1, …; 1 could not be deleted: logs/2. Start over for the rest."
    )
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert bucket.keys() == ["logs/2", "secrets/root.key"]


async def test_another_replica_completes_what_it_never_planned(lab: Lab, bucket: Bucket) -> None:
    for codec in replicas.ROLES:
        bucket.reset(["logs/1"])
        one, other = replicas.replica(lab, bucket, codec), replicas.replica(lab, Bucket(bucket.folder), codec)
        async with Client(one) as a, Client(other) as b:
            result = await attacks.confirm(b, await attacks.ask(a, "logs/"))
        assert text_of(result) == "Purged 1 object(s): logs/1"


async def test_the_wire_is_recorded_without_the_capability(
    lab: Lab, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    async def yes(*_: object) -> ElicitResult:
        return ElicitResult(action="accept", content=YES)

    confirmations = lab.client("confirmations")
    security = RequestStateSecurity(keys=load_key_ring(lab.client("ring-reader")), ttl=120)
    server = build_janitor(security, SingleUse(confirmations), bucket)
    async with over_http(server, yes, openbao=confirmations) as (client, wire):
        await client.call_tool(TOOL, {"prefix": "logs/"})
    assert [(sender, receiver) for sender, receiver, _ in wire.calls()] == [
        ("client", "server"),
        ("server", "OpenBao"),
        ("server", "client"),
    ] * 2
    assert [m.body["path"] for m in wire.calls() if m.receiver == "OpenBao"] == [
        "sys/wrapping/wrap",
        "sys/wrapping/unwrap",
    ]
    state = next(m.body["result"]["requestState"] for m in wire.calls() if "requestState" in m.body.get("result", {}))
    wire.show()
    shown = capsys.readouterr().out
    assert shown.count('"requestState": "v1.…"') == 2
    assert state not in shown
    assert state[10:30] not in shown
    assert not confirmations.adapter.session.hooks["response"]
