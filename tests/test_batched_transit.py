"""BatchedTransit seals and opens beside the event loop, for many rounds at once, what TransitCodec seals and opens."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hvac
import pytest
from mcp import Client
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import InputRequiredResult
from waiting import stopped

import labkit
from labkit.async_client import AsyncClient
from labkit.attacks import verdict
from labkit.batched_transit import BatchedTransit
from labkit.checks import expect_refusal, logged_reasons
from labkit.front_desk import NOTES, ask_then_report, booking, carriers, front_desk, hand_over
from labkit.lab import Lab
from labkit.transit import TransitCodec
from labkit.wire import over_http, send_raw

pytestmark = pytest.mark.anyio
REFUSED = "error -32602: Invalid or expired requestState"
NOT_SEALED = "error -32603: Internal error"
DONE = f"done; the notes were: {NOTES}"
MANY = 20


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def openbao(lab: Lab) -> hvac.Client:
    return lab.client("transit")


def desk(codec: BatchedTransit, name: str = "front-desk") -> MCPServer:
    server = front_desk(RequestStateSecurity(codec=codec), name)
    codec.attach(server)
    return server


@contextmanager
def calls_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """What OpenBao is asked for: to encrypt or to decrypt, and how many states."""
    calls: list[tuple[str, int]] = []
    post = AsyncClient.post

    async def note(self: AsyncClient, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        calls.append((path.split("/")[3], len(body["batch_input"])))
        return await post(self, path, body)

    with monkeypatch.context() as patch:
        patch.setattr(AsyncClient, "post", note)
        yield calls


async def test_states_of_concurrent_rounds_travel_together(
    openbao: hvac.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(desk(BatchedTransit(openbao, batch=MANY // 2, wait=4))) as client:
        with calls_of(monkeypatch) as calls:
            questions = await asyncio.gather(*(booking(client)(room=str(n)) for n in range(MANY)))
            states = [question.request_state for question in questions]
            told = await asyncio.gather(*(booking(client)(state, room=str(n)) for n, state in enumerate(states)))
    assert len(set(states)) == MANY
    assert all(DONE in str(each.content) for each in told), "each got its own: a state is bound to its room"
    assert calls == [("encrypt", MANY // 2)] * 2 + [("decrypt", MANY // 2)] * 2


async def test_the_largest_batch_is_one_that_openbao_takes(
    openbao: hvac.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(desk(BatchedTransit(openbao, batch=200, wait=4))) as client:
        with calls_of(monkeypatch) as calls:
            questions = await asyncio.gather(*(booking(client)() for _ in range(200)))
            told = await asyncio.gather(*(booking(client)(question.request_state) for question in questions))
    assert all(DONE in str(each.content) for each in told)
    assert calls == [("encrypt", 200), ("decrypt", 200)]


async def test_a_single_round_waits_for_nobody(openbao: hvac.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Client(desk(BatchedTransit(openbao))) as client:
        with calls_of(monkeypatch) as calls:
            state = (await booking(client)()).request_state
            assert DONE in await verdict(booking(client)(state))
            assert "pong" in await verdict(booking(client)(name="ping"))
    assert calls == [("encrypt", 1), ("decrypt", 1)], "and who asks nothing costs nothing"


async def test_the_server_goes_on_while_openbao_works(own_lab: Lab) -> None:
    async with Client(desk(BatchedTransit(own_lab.client("transit"), timeout=15))) as client:
        state = (await booking(client)()).request_state
        with stopped(own_lab):
            rounds = [asyncio.create_task(booking(client)(given)) for given in (None, state)]
            async with asyncio.timeout(30):
                for _ in range(20):
                    assert "pong" in await verdict(booking(client)(name="ping"))
            assert not any(each.done() for each in rounds)
        asked, told = await asyncio.gather(*rounds)
    assert isinstance(asked, InputRequiredResult)
    assert DONE in str(told.content)


@pytest.mark.parametrize("http", [False, True])
async def test_every_carrier_brings_its_state_back(openbao: hvac.Client, http: bool) -> None:
    server = desk(BatchedTransit(openbao))
    async with over_http(server) if http else Client(server) as connected:
        calls = carriers(connected[0] if http else connected)
        asked = await asyncio.gather(*(call() for call in calls))
        told = await asyncio.gather(*(call(one.request_state) for call, one in zip(calls, asked, strict=True)))
        assert all(DONE in str(each) for each in told)
        for number, call in enumerate(calls):
            assert await verdict(call(asked[number - 1].request_state)) == REFUSED, "no carrier takes that of another"
    assert all(one.request_state.startswith("vault:v1:") for one in asked)


async def test_a_lowlevel_server_is_as_good(openbao: hvac.Client) -> None:
    codec, upper = BatchedTransit(openbao), front_desk([b"k" * 32])
    server: Server[Any] = upper._lowlevel_server
    server.middleware[:] = [each for each in server.middleware if not isinstance(each, RequestStateBoundary)]
    with pytest.raises(labkit.LabError, match="front-desk has no RequestStateBoundary: append one"):
        codec.attach(server)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity(codec=codec), default_audience="desk"))
    codec.attach(server)
    async with Client(server) as client:
        state = (await booking(client)()).request_state
        assert state.startswith("vault:v1:")
        assert DONE in await verdict(booking(client)(state))


async def test_its_tokens_are_those_of_the_strict_codec(openbao: hvac.Client) -> None:
    batched = desk(BatchedTransit(openbao))
    strict = front_desk(RequestStateSecurity(codec=TransitCodec(openbao)))
    assert await hand_over(batched, strict) == await hand_over(strict, batched) == "completed"
    assert await hand_over(desk(BatchedTransit(openbao), "back-office"), batched) == "refused: audience"


async def test_the_key_is_that_which_was_asked_for(own_lab: Lab) -> None:
    own_lab.admin.write_data("transit/keys/other", data={"type": "aes256-gcm96"})
    strict = front_desk(RequestStateSecurity(codec=TransitCodec(own_lab.admin, "other")))
    assert await hand_over(desk(BatchedTransit(own_lab.admin, "other")), strict) == "completed"


async def test_one_bad_token_never_hurts_a_neighbor(openbao: hvac.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are in one call, which OpenBao answers with an error."""
    server = desk(BatchedTransit(openbao, batch=4, wait=4))
    async with Client(desk(BatchedTransit(openbao))) as alone, Client(server) as client:
        one, other = [(await booking(alone)()).request_state for _ in "12"]
        forged = one[:40] + ("A" if one[40] != "A" else "B") + one[41:]
        too_new = one.replace(":v1:", ":v9:")
        with logged_reasons() as reasons, calls_of(monkeypatch) as calls:
            told = await asyncio.gather(*(verdict(booking(client)(state)) for state in (one, forged, too_new, other)))
    assert calls == [("decrypt", 4)]
    assert DONE in told[0]
    assert DONE in told[3]
    assert told[1:3] == [REFUSED] * 2
    assert sorted(reasons) == ["seal", "unknown key"]


async def test_what_was_never_minted_does_not_reach_openbao(
    openbao: hvac.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(desk(BatchedTransit(openbao))) as client:
        state = (await booking(client)()).request_state
        with calls_of(monkeypatch) as calls:
            for other in (
                f"{state}\n",
                state.upper(),
                state[:20],
                "",
                "unsealed-0",
                "v1.AAAA",
                state + "A" * 1_000_000,
            ):
                with expect_refusal("malformed"):
                    await booking(client)(other)
    assert calls == []


@pytest.mark.parametrize("state", [7, 0, 1.5, True, False, [], ["vault:v1:AAAA"], {}, {"requestState": "x"}])
async def test_a_state_that_is_no_string_is_refused(openbao: hvac.Client, state: object) -> None:
    server = desk(BatchedTransit(openbao))
    with expect_refusal("non-string requestState") as refusal:
        refusal.saw(await send_raw(server, {"name": "book", "arguments": {"room": "7"}, "requestState": state}))


async def test_null_is_as_good_as_no_state(openbao: hvac.Client) -> None:
    server = desk(BatchedTransit(openbao))
    told = await send_raw(server, {"name": "book", "arguments": {"room": "7"}, "requestState": None})
    assert told["result"]["requestState"].startswith("vault:v1:")


async def test_without_its_middleware_nothing_is_sealed_and_nothing_opened(
    openbao: hvac.Client, caplog: pytest.LogCaptureFixture
) -> None:
    codec = BatchedTransit(openbao)
    genuine = front_desk(RequestStateSecurity(codec=TransitCodec(openbao)))
    async with Client(genuine) as client, Client(front_desk(RequestStateSecurity(codec=codec))) as unattached:
        state = (await booking(client)()).request_state
        for call in carriers(unattached):
            assert await verdict(call()) == NOT_SEALED
            assert await verdict(call(state)) == REFUSED
    assert caplog.text.count("LabError: BatchedTransit does nothing without its middleware: call attach(server)") == 6
    for call, given in ((codec.seal, b"payload"), (codec.unseal, state)):
        with pytest.raises(labkit.LabError, match=r"call attach\(server\)"):
            call(given)  # type: ignore[operator]


async def test_it_is_attached_once(openbao: hvac.Client) -> None:
    codec = BatchedTransit(openbao)
    server = desk(codec)
    with pytest.raises(labkit.LabError, match="attached to front-desk already"):
        codec.attach(server)
    codec.attach(front_desk(RequestStateSecurity(codec=codec)))  # to another one as well


@pytest.mark.parametrize(
    "numbers",
    [
        *({"batch": 0}, {"batch": 201}, {"batch": 63.5}, {"room": 0}, {"room": float("nan")}),
        *({"wait": -0.1}, {"wait": 5}, {"wait": float("nan")}),
        *({"timeout": 0}, {"timeout": -1}, {"timeout": float("inf")}, {"timeout": float("nan")}),
    ],
)
def test_numbers_that_make_no_sense_are_turned_down(numbers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"not {next(iter(numbers.values()))!r}|time-out of {numbers.get('timeout')}"):
        BatchedTransit(hvac.Client(), **numbers)


async def a_flow(server: MCPServer) -> str:
    async with Client(server) as client:
        return await verdict(booking(client)((await booking(client)()).request_state))


def test_one_event_loop_after_the_other_and_two_at_once_are_served(openbao: hvac.Client) -> None:
    codec = BatchedTransit(openbao)
    for _ in range(3):
        assert DONE in asyncio.run(a_flow(desk(codec)))
    assert len(codec._queues) == 1, "what belonged to a loop goes with it"
    told: list[str] = []

    def run() -> None:
        start.wait()
        for _ in range(5):
            told.append(asyncio.run(a_flow(desk(codec))))

    start = threading.Barrier(2)
    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [DONE in each for each in told] == [True] * 10


@pytest.mark.parametrize("attached", [True, False])
async def test_a_server_inside_a_tool_has_rounds_of_its_own_or_none(openbao: hvac.Client, attached: bool) -> None:
    """In memory, it runs in the very task of the round around it, which is nobody else's nevertheless."""
    codec = BatchedTransit(openbao)
    inner, outer = front_desk(RequestStateSecurity(codec=codec), "inner"), desk(codec, "outer")
    if attached:
        codec.attach(inner)

    @outer.tool(structured_output=False)
    async def through(room: str, ctx: Context) -> Any:
        async with Client(inner) as client:
            if ctx.request_state is None:
                return await booking(client)()
            return await verdict(booking(client)(ctx.request_state))

    @outer.tool(structured_output=False)
    async def beside(room: str, ctx: Context) -> Any:
        async with Client(inner) as client:
            said.append(await verdict(booking(client)()))
        return ask_then_report(ctx)

    said: list[str] = []
    async with Client(outer) as client:
        state = (await booking(client)(name="beside")).request_state
        assert DONE in await verdict(booking(client)(state, name="beside")), "nothing of it disturbs the outer one"
        assert said == ["asks again" if attached else NOT_SEALED] * 2
        if attached:
            state = (await booking(client)(name="through")).request_state
            assert DONE in await verdict(booking(client)(state, name="through"))
