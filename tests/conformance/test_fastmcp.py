"""FastMCP takes what labkit seals with, unchanged, and so gets the same defense."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import mcp
import pytest
from fastmcp import Context, FastMCP
from mcp.server.request_state import RequestStateSecurity
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from serving import serving

from labkit import attacks, replicas
from labkit.attacks import Question, text_of
from labkit.bucket import Bucket
from labkit.checks import expect_refusal
from labkit.janitor import QUESTION, TOOL
from labkit.lab import Lab
from labkit.wire import over_http

HERE = Path(__file__).parent
pytestmark = pytest.mark.anyio


def janitor(security: RequestStateSecurity | None, bucket: Bucket) -> FastMCP:
    """A FastMCP server that asks, and then deletes what its state names: as good as the state is."""
    server = FastMCP("fast-janitor", request_state_security=security)

    @server.tool(name=TOOL)
    def purge_objects(prefix: str, ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is None:
            form = ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
            return InputRequiredResult(
                input_requests={QUESTION: ElicitRequest(params=form)}, request_state=" ".join(bucket.keys(prefix))
            )
        return f"purged {sum(bucket.delete(key) for key in ctx.request_state.split())}"

    return server


@contextmanager
def fast(security: RequestStateSecurity | None, bucket: Bucket) -> Iterator[str]:
    server = janitor(security, bucket)
    if security is not None:
        replicas.attach(server._mcp_server, security)
    with serving(server.http_app(stateless_http=True, json_response=True)) as url:
        yield url


@pytest.fixture(params=replicas.ROLES)
def security(request: pytest.FixtureRequest, lab: Lab) -> RequestStateSecurity:
    return replicas.security(request.param, lab.client(replicas.ROLES[request.param]))


async def test_each_test_is_run_with_the_codec_that_it_is_named_after(
    security: RequestStateSecurity, bucket: Bucket, request: pytest.FixtureRequest, sealed_by: Callable[[str], str]
) -> None:
    with fast(security, bucket) as url:
        async with over_http(url) as (client, _):
            state = (await attacks.ask(client, "logs/")).state
    assert request.node.name.endswith(f"[{sealed_by(state)}]")


async def test_an_honest_round_goes_through_and_a_forged_one_does_not(
    security: RequestStateSecurity, bucket: Bucket
) -> None:
    with fast(security, bucket) as url:
        async with over_http(url) as (client, _):
            question = await attacks.ask(client, "logs/")
            with expect_refusal("seal"):
                await attacks.tamper_one_byte(client, question)
            with expect_refusal("malformed"):
                await attacks.confirm(client, Question("logs/", question.state + "\n"))
            with expect_refusal("request binding"):
                await attacks.swap_arguments(client, question, "secrets/")
            assert len(bucket.keys()) == 4
            assert text_of(await attacks.confirm(client, question)) == "purged 3"
    assert bucket.keys() == ["secrets/root.key"]


async def test_two_replicas_share_what_labkit_provides_and_nothing_else(
    security: RequestStateSecurity, bucket: Bucket
) -> None:
    with fast(security, bucket) as first, fast(security, bucket) as second, fast(None, bucket) as alone:
        async with over_http(first) as (a, _), over_http(second) as (b, _), over_http(alone) as (c, _):
            question = await attacks.ask(a, "logs/")
            with expect_refusal("unknown key" if question.state.startswith("v1.") else "malformed"):
                await attacks.confirm(c, question)
            assert len(bucket.keys()) == 4
            assert text_of(await attacks.confirm(b, question)) == "purged 3"


def test_it_runs_on_the_same_packages_as_labkit() -> None:
    ours, its = (
        dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", path.read_text(), re.M))
        for path in (HERE.parents[1] / "requirements.lock", HERE / "requirements.lock")
    )
    assert {name: its[name] for name in its.keys() & ours.keys()} == {name: ours[name] for name in its.keys() & ours}
    assert ours["mcp"] == its["mcp"]
    assert "://" not in (HERE / "requirements.lock").read_text()
    assert "fastmcp" not in Path(mcp.__file__).parts
