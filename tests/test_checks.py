"""The checks fail when there is nothing to see: no refusal, another refusal, no answer."""

from __future__ import annotations

import logging
from collections.abc import Callable

import hvac.exceptions
import pytest
from mcp import Client
from mcp.server.request_state import InvalidRequestState
from mcp.shared.exceptions import MCPError

import labkit
from labkit import attacks, checks, replicas
from labkit.attacks import Question
from labkit.bucket import Bucket
from labkit.lab import Lab
from labkit.single_use import AlreadyRedeemed, WrongPlan

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def tampered(client: Client) -> object:
    return await attacks.tamper_one_byte(client, await attacks.ask(client, "logs/"))


async def test_a_refusal_for_the_named_reason_passes_and_is_printed(
    lab: Lab, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Client(replicas.replica(lab, bucket)) as client:
        with labkit.expect_refusal("seal"):
            await tampered(client)
    assert capsys.readouterr().out == "refused (seal); the caller sees: -32602 Invalid or expired requestState\n"


async def test_a_refusal_that_leaves_a_client_as_a_group_passes_too(lab: Lab, bucket: Bucket) -> None:
    with labkit.expect_refusal("seal"):
        async with Client(replicas.replica(lab, bucket)) as client:
            await tampered(client)


async def test_nothing_refused_fails(lab: Lab, bucket: Bucket) -> None:
    async with Client(replicas.replica(lab, bucket)) as client:
        with pytest.raises(AssertionError, match="nothing was refused"), labkit.expect_refusal("seal"):
            await attacks.confirm(client, await attacks.ask(client, "logs/"))


async def test_another_reason_fails(lab: Lab, bucket: Bucket) -> None:
    async with Client(replicas.replica(lab, bucket)) as client:
        with pytest.raises(AssertionError, match=r"refused for \['seal'\]: the reason 'expired'"):
            with labkit.expect_refusal("expired"):
                await tampered(client)


async def test_a_second_reason_besides_the_named_one_fails(lab: Lab, bucket: Bucket) -> None:
    async with Client(replicas.replica(lab, bucket)) as client:
        question = await attacks.ask(client, "logs/")
        with pytest.raises(AssertionError, match=r"the log has \['malformed', 'seal'\]"), labkit.expect_refusal("seal"):
            with pytest.raises(MCPError):
                await attacks.confirm(client, Question("logs/", "v1.x"))
            await attacks.tamper_one_byte(client, question)


async def test_a_logged_reason_alone_is_no_refusal(lab: Lab, bucket: Bucket) -> None:
    """The client was told, and whoever called it swallowed that: the block itself refused nothing."""
    async with Client(replicas.replica(lab, bucket)) as client:
        with pytest.raises(AssertionError, match="nothing was refused"), labkit.expect_refusal("seal"):
            with pytest.raises(MCPError):
                await tampered(client)


async def test_a_refusal_in_a_result_counts_when_it_is_shown(lab: Lab, bucket: Bucket) -> None:
    async with Client(replicas.replica(lab, bucket)) as client:
        question = await attacks.ask(client, "logs/")
        done = await attacks.confirm(client, question)
        with labkit.expect_refusal("already redeemed") as refusal:
            refusal.saw(await attacks.replay(client, question))
        with pytest.raises(AssertionError, match="an answer refused nothing"):
            with labkit.expect_refusal("already redeemed") as refusal:
                refusal.saw(done)
        with pytest.raises(AssertionError, match="an answer refused nothing"):
            with labkit.expect_refusal("already redeemed") as refusal:
                refusal.saw(await attacks.replay(client, question))
                refusal.saw(done)
        with pytest.raises(AssertionError, match="nothing was refused"), labkit.expect_refusal("already redeemed"):
            await attacks.replay(client, question)


async def test_an_error_result_that_is_no_refusal_of_ours_has_no_reason(lab: Lab, bucket: Bucket) -> None:
    async with Client(replicas.replica(lab, bucket)) as client:
        result = await client.session.call_tool("purge_objects", {"prefix": ""}, allow_input_required=True)
        with pytest.raises(AssertionError, match=r"refused for \[.another error: An empty prefix"):
            with labkit.expect_refusal("already redeemed") as refusal:
                refusal.saw(result)


def test_a_raw_answer_counts_only_with_a_logged_reason() -> None:
    frozen = {"error": {"code": -32602, "message": "Invalid or expired requestState"}}
    with pytest.raises(AssertionError, match=r"the log has \[\]"), labkit.expect_refusal("seal") as refusal:
        refusal.saw(frozen)
    others = [
        {"code": -32603, "message": "Internal error"},
        {**frozen["error"], "message": "No"},
        {"code": -32602},
        "x",
        7,
    ]
    for other in (*({"error": error} for error in others), {"result": {}}, None, "text"):
        with pytest.raises(AssertionError, match="refused nothing"), labkit.expect_refusal("seal") as refusal:
            refusal.saw(other)


def raising(error: Exception) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (InvalidRequestState("malformed"), "malformed"),
        (AlreadyRedeemed("…"), "already redeemed"),
        (AlreadyRedeemed("this confirmation was never issued"), "never issued"),
        (WrongPlan("…"), "wrong plan"),
        (hvac.exceptions.Forbidden("1 error occurred:\n\t* permission denied"), "permission denied"),
    ],
)
def test_each_kind_of_refusal_has_its_reason(error: Exception, reason: str) -> None:
    with labkit.expect_refusal(reason):
        raising(error)()
    with pytest.raises(AssertionError, match="the reason 'other'"), labkit.expect_refusal("other"):
        raising(error)()


@pytest.mark.parametrize(
    "error", [ValueError("a slip"), MCPError(-32603, "Internal error"), labkit.OpenBaoUnavailable("…")]
)
def test_what_is_no_refusal_comes_through(error: Exception) -> None:
    """An outage, a slip in the cell or an internal error must never pass for a defense."""
    with pytest.raises(type(error)), labkit.expect_refusal("seal"):
        raising(error)()
    with pytest.raises(ExceptionGroup), labkit.expect_refusal("malformed"):
        raise ExceptionGroup("both", [InvalidRequestState("malformed"), error])


def test_log_lines_come_back_after_the_check() -> None:
    assert checks._SDK.propagate
    handlers = list(checks._SDK.handlers)
    with pytest.raises(AssertionError), labkit.expect_refusal("seal"):
        assert not checks._SDK.propagate
    one, other = checks.logged_reasons(), checks.logged_reasons()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert not checks._SDK.propagate
    other.__exit__(None, None, None)
    assert checks._SDK.propagate
    assert checks._SDK.handlers == handlers


async def test_a_block_does_not_borrow_the_log_line_of_a_block_inside_it(lab: Lab, bucket: Bucket) -> None:
    async with Client(replicas.replica(lab, bucket)) as client:
        with pytest.raises(AssertionError, match="nothing was refused"), labkit.expect_refusal("seal"):
            with labkit.expect_refusal("seal"):
                await tampered(client)


def test_a_policy_s_denial_is_told_from_a_token_that_is_none(lab: Lab) -> None:
    with labkit.expect_refusal("permission denied"):
        lab.client("transit").secrets.kv.v2.read_secret_version("x", raise_on_deleted_version=True)
    stranger = lab._server.client(lab.namespace, token="s.nobody")
    with pytest.raises(hvac.exceptions.Forbidden), labkit.expect_refusal("permission denied"):
        stranger.secrets.kv.v2.read_secret_version("x", raise_on_deleted_version=True)


def test_log_lines_are_collected_kept_off_the_screen_and_let_go_again(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    below = logging.getLogger("labkit.single_use")
    with checks.log_lines("labkit") as lines:
        below.warning("a claim is %s", "gone")
    below.warning("after that")
    assert lines == ["a claim is gone"]
    assert caplog.messages == ["after that"]
    assert capsys.readouterr().out == ""
