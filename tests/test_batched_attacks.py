"""Neither a hostile client, nor a proxy, nor what stands next to it, makes BatchedTransit hurt a neighbor or leak."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from batched_desk import ASKED, DONE, NOT_SEALED, REFUSED, Desk, asked_by
from mcp import Client
from mcp.server.context import CallNext
from mcp.server.mcpserver import Context
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from waiting import stopped

from labkit.async_client import AsyncClient
from labkit.attacks import verdict
from labkit.checks import log_lines, logged_reasons
from labkit.front_desk import NOTES, ask_then_report, booking
from labkit.lab import Lab
from labkit.transit import TransitCodec
from labkit.wire import over_http

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_forty_forgeries_of_a_megabyte_hold_up_no_honest_round(lab: Lab) -> None:
    """In one call they would be more than OpenBao reads, and one after the other they would take it a second."""
    desk = Desk(lab.client("transit"), timeout=30)
    state = await asked_by(desk)
    huge = "vault:v1:" + "A" * 999_900
    async with Client(desk.server) as client:
        with logged_reasons() as reasons, log_lines("labkit") as logged:
            forgeries = [asyncio.create_task(verdict(booking(client)(huge))) for _ in range(40)]
            honest = asyncio.create_task(verdict(booking(client)(state)))  # behind them
            assert DONE in await honest
            assert sum(each.done() for each in forgeries) < 20, "who came last is not served last"
            assert set(await asyncio.gather(*forgeries)) == {REFUSED}
    assert reasons == ["seal"] * 40
    assert logged == []


@pytest.mark.parametrize("length", [740_000, 26_000_000])
async def test_a_state_that_is_too_long_is_of_one_round_only(lab: Lab, length: int) -> None:
    """A plan may become as long as what a user has; OpenBao answers 413 to a whole batch."""
    desk = Desk(lab.client("transit"), batch=3, wait=1)

    @desk.server.tool(structured_output=False)
    def plan(room: str, ctx: Context) -> Any:
        answer: Any = ask_then_report(ctx)
        return answer.model_copy(update={"request_state": "x" * length})

    async with Client(desk.server) as client:
        told = await asyncio.gather(*(verdict(booking(client)(name=name)) for name in ("book", "plan", "book")))
    assert told == [ASKED, ASKED if length < 750_000 else NOT_SEALED, ASKED]


async def test_who_is_cancelled_leaves_the_others_of_the_batch_alone(own_lab: Lab) -> None:
    desk = Desk(own_lab.client("transit"), timeout=20)
    state = await asked_by(desk)
    async with Client(desk.server) as client:
        with stopped(own_lab):
            rounds = [asyncio.create_task(verdict(booking(client)(state)))]
            await desk.waiting(0, sealing=False)
            rounds += [asyncio.create_task(verdict(booking(client)(state))) for _ in range(5)]
            await desk.waiting(5, sealing=False)
            for each in rounds[:3]:  # one on its way, and two that wait
                each.cancel()
            await desk.waiting(3, sealing=False)
        told = await asyncio.gather(*rounds, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in told] == [True] * 3 + [False] * 3
        assert all(DONE in each for each in told[3:])
        assert DONE in await verdict(booking(client)(state)), "and whoever comes next"
    assert desk.codec._rounds == {}, "nothing is left of any round"


async def in_a_task(context: Any, call_next: CallNext) -> Any:
    return await asyncio.create_task(call_next(context))  # type: ignore[arg-type]


async def another_answer(context: Any, call_next: CallNext) -> Any:
    result: Any = await call_next(context)
    return {"content": [], "isError": False} if isinstance(result, dict) and "requestState" in result else result


async def another_place(context: Any, call_next: CallNext) -> Any:
    result: Any = await call_next(context)
    return {**result, "requestState": "mine"} if isinstance(result, dict) and "requestState" in result else result


async def no_place(context: Any, call_next: CallNext) -> Any:
    result: Any = await call_next(context)
    return {**result, "requestState": None} if isinstance(result, dict) and "requestState" in result else result


@pytest.mark.parametrize("middleware", [in_a_task, another_answer, another_place, no_place])
async def test_with_anything_put_in_between_nothing_gets_out(
    lab: Lab, middleware: Any, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(lab.client("transit"))
    desk.put_between(middleware)
    async with over_http(desk.server) as (client, wire):
        assert await verdict(booking(client)()) == NOT_SEALED
    on_the_wire = json.dumps([message.body for message in wire.messages])
    assert NOTES not in on_the_wire
    assert "unsealed" not in on_the_wire
    assert "put nothing between BatchedTransit and the boundary" in caplog.text or "call attach(server)" in caplog.text


async def test_with_a_state_exchanged_in_between_nothing_gets_in(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(lab.client("transit"))
    one, other = await asked_by(desk), await asked_by(desk)

    async def exchange(context: Any, call_next: CallNext) -> Any:
        context.params["requestState"] = one
        return await call_next(context)

    desk.put_between(exchange)
    async with Client(desk.server) as client:
        assert await verdict(booking(client)(other)) == REFUSED
    assert "The state was exchanged between BatchedTransit and the SDK's boundary" in caplog.text


async def test_what_a_middleware_of_the_server_asks_is_sealed_too(lab: Lab) -> None:
    """It answers with a model, where the SDK itself has a mapping."""
    desk = Desk(lab.client("transit"))

    async def asks(context: Any, call_next: CallNext) -> Any:
        form = ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
        asked = InputRequiredResult(input_requests={"sure": ElicitRequest(params=form)}, request_state=NOTES)
        return asked if context.method == "tools/call" else await call_next(context)

    desk.server.middleware.append(asks)
    state = await asked_by(desk)
    assert json.loads(TransitCodec(desk.openbao).unseal(state))["s"] == NOTES


ODD: dict[str, Callable[[list[Any]], Any]] = {
    "nothing": lambda results: results[1].clear(),
    "no object": lambda results: results.__setitem__(1, None),
    "an error that is no text": lambda results: results.__setitem__(1, {"error": 7}),
    "a number": lambda results: results[1].update(plaintext=7, ciphertext=7),
    "no base64": lambda results: results[1].update(plaintext="\N{SNOWMAN}", ciphertext=None),
}


@contextmanager
def proxy(monkeypatch: pytest.MonkeyPatch, alter: Callable[[list[Any]], Any]) -> Iterator[None]:
    """Somebody between us and OpenBao, who alters the results of a batch."""
    post = AsyncClient.post

    async def altered(self: AsyncClient, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        status, content = await post(self, path, body)
        alter(content["data"]["batch_results"])
        return status, content

    with monkeypatch.context() as patch:
        patch.setattr(AsyncClient, "post", altered)
        yield


@pytest.mark.parametrize("what", ODD)
async def test_a_result_that_makes_no_sense_is_of_one_round_only(
    lab: Lab, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(lab.client("transit"), batch=3, wait=4)
    state = await asked_by(Desk(lab.client("transit")))
    async with Client(desk.server) as client:
        with proxy(monkeypatch, ODD[what]), logged_reasons() as reasons:
            told = await asyncio.gather(*(verdict(booking(client)(state)) for _ in range(3)))
            assert [DONE in each for each in told] == [True, False, True]
            assert reasons == ["codec error"]
            told = await asyncio.gather(*(verdict(booking(client)()) for _ in range(3)))
            assert sorted(told) == [ASKED, ASKED, NOT_SEALED]


async def test_results_count_for_nothing_where_the_status_says_that_the_call_failed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(lab.client("transit"))
    state, post = await asked_by(desk), AsyncClient.post

    async def failed(self: AsyncClient, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        return 500, (await post(self, path, body))[1]

    monkeypatch.setattr(AsyncClient, "post", failed)
    async with Client(desk.server) as client:
        assert await verdict(booking(client)(state)) == REFUSED
        assert await verdict(booking(client)()) == NOT_SEALED


async def test_what_is_said_of_one_state_is_shown_short(
    lab: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(lab.client("transit"))
    async with Client(desk.server) as client:
        with proxy(monkeypatch, lambda results: results.__setitem__(0, {"error": "all is well\n" * 1000})):
            assert await verdict(booking(client)()) == NOT_SEALED
    assert 0 < caplog.text.count("all is well") < 100
    assert "all is well\n" not in caplog.text


@pytest.mark.parametrize("alter", [list.pop, list.clear, lambda results: results.append(results[0])])
async def test_of_too_few_results_or_too_many_none_is_anybodys(
    lab: Lab, alter: Callable[[list[Any]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(lab.client("transit"), batch=3, wait=4)
    state = await asked_by(Desk(lab.client("transit")))
    async with Client(desk.server) as client:
        with proxy(monkeypatch, alter), log_lines("labkit") as logged:
            assert await asyncio.gather(*(verdict(booking(client)(state)) for _ in range(3))) == [REFUSED] * 3
            assert await asyncio.gather(*(verdict(booking(client)()) for _ in range(3))) == [NOT_SEALED] * 3
        assert sum("requestState outage, not an attack" in line for line in logged) == 2
