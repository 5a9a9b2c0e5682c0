"""Rejections are counted by reason, and the client learns no more than before."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest
from mcp import Client
from mcp.server.request_state import InvalidRequestState, RequestStateSecurity
from prometheus_client.parser import text_string_to_metric_families

from labkit.attacks import verdict
from labkit.checks import logged_reasons
from labkit.errors import LabError
from labkit.front_desk import booking, carriers, front_desk
from labkit.rejections import REASONS, Rejections

pytestmark = pytest.mark.anyio
RING = [b"k" * 32]
FROZEN = "error -32602: Invalid or expired requestState"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with logged_reasons():
        yield


def counts(rejections: Rejections) -> dict[str, float]:
    """As Prometheus reads them; those that are not zero."""
    families = list(text_string_to_metric_families(rejections.text()))
    assert [(family.name, family.type) for family in families] == [("mcp_request_state_rejections", "counter")]
    assert [sample.labels["reason"] for sample in families[0].samples] == [*REASONS]
    assert {sample.name for sample in families[0].samples} == {"mcp_request_state_rejections_total"}
    return {sample.labels["reason"]: sample.value for sample in families[0].samples if sample.value}


async def test_each_reason_is_counted_and_the_client_hears_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    heard = set()
    with Rejections() as rejections:
        async with Client(front_desk(RING)) as client, Client(front_desk(RING, "other")) as elsewhere:
            tool, prompt, _ = carriers(client)
            state = (await tool()).request_state
            for bad in ("", "v1.", state[:12] + ("A" if state[12] != "A" else "B") + state[13:]):
                heard.add(await verdict(tool(bad)))
            heard.add(await verdict(prompt(state)))
            heard.add(await verdict(booking(elsewhere)(state)))
            assert "room 7" in await verdict(tool(state))
    assert heard == {FROZEN}
    assert counts(rejections) == {"malformed": 2, "seal": 1, "request binding": 1, "audience": 1}


async def test_what_a_codec_says_makes_no_label() -> None:
    class Chatty:
        def seal(self, payload: bytes) -> str:
            return payload.hex()

        def unseal(self, token: str) -> bytes:
            raise InvalidRequestState(f"bad token {token}")

    with Rejections() as rejections:
        async with Client(front_desk(RequestStateSecurity(codec=Chatty()))) as client:
            for token in ("one", 'two"} 1\n', "three"):
                assert await verdict(booking(client)(token)) == FROZEN
    assert counts(rejections) == {"other": 3}
    assert "bad token" not in rejections.text()


async def test_an_outage_has_a_reason_of_its_own_and_counts_once() -> None:
    class Away:
        def seal(self, payload: bytes) -> str:
            return payload.hex()

        def unseal(self, token: str) -> bytes:
            raise OSError("away")

    with Rejections() as rejections:
        async with Client(front_desk(RequestStateSecurity(codec=Away()))) as client:
            assert await verdict(booking(client)("any")) == FROZEN
    assert counts(rejections) == {"codec error": 1}


async def test_a_state_that_could_not_be_sealed_is_no_rejection() -> None:
    no_principal = RequestStateSecurity(keys=RING, bind_principal=lambda _: 7)  # type: ignore[arg-type, return-value]
    with Rejections() as rejections:
        async with Client(front_desk(no_principal)) as client:
            assert await verdict(booking(client)()) == "error -32603: Internal error"
    assert counts(rejections) == {}


async def test_outside_the_block_nothing_is_counted() -> None:
    rejections = Rejections()
    async with Client(front_desk(RING)) as client:
        await verdict(booking(client)("before"))
        with rejections:
            await verdict(booking(client)("v1.inside"))
        await verdict(booking(client)("after"))
    assert counts(rejections) == {"malformed": 1}


def test_every_reason_is_there_before_anything_happens() -> None:
    text = Rejections().text()
    assert counts(Rejections()) == {}
    assert text.startswith("# HELP mcp_request_state_rejections_total Rounds that the requestState boundary refused.\n")
    assert not re.search("_created", text), "a time that differs from run to run"


def test_the_reasons_are_those_that_the_sdk_has() -> None:
    import inspect

    from mcp.server import request_state

    source = inspect.getsource(request_state)
    said = {*re.findall(r'_reject\(ctx\.method, "([^"]+)"\)', source)}
    said |= {*re.findall(r'InvalidRequestState\("([^"]+)"\)', source), *re.findall(r'fail\("([^"]+)"\)', source)}
    assert said == {*REASONS} - {"other"}


def test_where_nothing_is_logged_it_says_so() -> None:
    logger = logging.getLogger("mcp.server.request_state")
    logger.setLevel(logging.ERROR)
    try:
        with pytest.raises(LabError, match="above WARNING, so nothing would be counted"), Rejections():
            pass
    finally:
        logger.setLevel(logging.NOTSET)
