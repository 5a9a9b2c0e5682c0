"""The front desk tells how a round went from one server to another."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types import InputRequiredResult

from labkit import replicas
from labkit.attacks import verdict
from labkit.front_desk import NOTES, booking, carriers, front_desk, hand_over
from labkit.lab import Lab

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def guarded(security: RequestStateSecurity) -> MCPServer:
    server = front_desk(security)
    replicas.attach(server, security)
    return server


@pytest.mark.parametrize("codec", replicas.ROLES)
async def test_replicas_with_the_same_keys_hand_over(lab: Lab, codec: str) -> None:
    first, second = (guarded(replicas.security(codec, lab.client(replicas.ROLES[codec]))) for _ in "12")
    assert await hand_over(first, second) == "completed"


async def test_others_do_not_and_the_reason_is_told() -> None:
    ring = [b"k" * 32]
    assert await hand_over(front_desk(ring), front_desk([b"l" * 32])) == "refused: unknown key"
    assert await hand_over(front_desk(ring), front_desk(ring, "back-office")) == "refused: audience"


async def test_a_server_that_cannot_seal_has_asked_nothing(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    mute = RequestStateSecurity(codec=replicas.TransitCodec(lab.bearer("s.none")))
    assert await hand_over(front_desk(mute), front_desk(mute)) == "not asked"
    assert capsys.readouterr() == ("", ""), "nothing of it is on the screen"


def lifetime(security: RequestStateSecurity, state: str) -> float:
    sealed = json.loads(security.codec.unseal(state))
    return float(sealed["exp"] - sealed["iat"])


async def test_a_state_lives_as_long_as_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = [b"k" * 32]
    opener = RequestStateSecurity(keys=ring)
    its_own = RequestStateSecurity(keys=ring, ttl=50)
    for desk, ttl in ((front_desk(ring, ttl=7), 7), (front_desk(ring), 120), (front_desk(its_own, ttl=7), 50)):
        async with Client(desk) as client:
            state = (await booking(client)()).request_state
            assert lifetime(opener, state) == pytest.approx(ttl)
            exp = json.loads(opener.codec.unseal(state))["exp"]
            for now, said in ((exp - 0.001, NOTES), (exp, "error -32602: Invalid or expired requestState")):
                with monkeypatch.context() as later:
                    later.setattr("mcp.server.request_state.time", SimpleNamespace(time=lambda now=now: now))
                    assert said in await verdict(booking(client)(state))


def notes_in(result: Any) -> str:
    """What a round says in the end: a tool, a prompt and a resource each say it in a field of their own."""
    return str(getattr(result, "content", None) or getattr(result, "messages", None) or result.contents)


async def test_each_carrier_asks_in_round_1_reports_in_round_2_and_takes_no_state_of_another() -> None:
    async with Client(front_desk([b"k" * 32])) as client:
        calls = carriers(client)
        asked = [await call() for call in calls]
        assert all(isinstance(result, InputRequiredResult) for result in asked)
        for number, call in enumerate(calls):
            done = await call(asked[number].request_state)
            assert type(done).__name__ == ("CallToolResult", "GetPromptResult", "ReadResourceResult")[number]
            assert f"done; the notes were: {NOTES}" in notes_in(done)
            for other in set(range(3)) - {number}:
                said = await verdict(call(asked[other].request_state))
                assert said == "error -32602: Invalid or expired requestState"


async def test_a_state_for_one_resource_is_none_for_another() -> None:
    async with Client(front_desk([b"k" * 32])) as client:
        *_, resource = carriers(client)
        state = (await resource()).request_state
        assert NOTES in notes_in(await resource(state))
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await client.session.read_resource("desk://8", request_state=state, allow_input_required=True)


@pytest.mark.parametrize(("asked", "answered"), [(None, "alice"), ("alice", None)])
async def test_a_state_goes_neither_from_nobody_to_somebody_nor_back(asked: str | None, answered: str | None) -> None:
    first, second = (
        front_desk(RequestStateSecurity(keys=[b"k" * 32], bind_principal=lambda _, who=who: who))
        for who in (asked, answered)
    )
    assert await hand_over(first, second) == "refused: principal drift"


async def test_a_booking_is_the_tools_call_for_any_of_the_tools_and_any_room() -> None:
    async with Client(front_desk([b"k" * 32])) as client:
        book = booking(client)
        state = (await book()).request_state
        assert NOTES in await verdict(book(state))
        for other in ({"name": "cancel"}, {"room": "8"}):
            assert await verdict(book(state, **other)) == "error -32602: Invalid or expired requestState"
            assert NOTES in await verdict(book((await book(**other)).request_state, **other))
        assert "pong" in await verdict(book(name="ping"))
