"""OpenBao goes away at each step of a purge: what the user is told is true, and what was confirmed is not lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hvac
import pytest
import requests
from mcp import Client
from mcp.server import MCPServer
from mcp_types import CallToolResult
from on_disk import OnDisk
from recovering import PURGED, Hooked, Parking, Redeeming, janitor, plan_of
from test_ledger import after
from waiting import eventually

from labkit import attacks
from labkit.attacks import text_of
from labkit.bucket import Bucket
from labkit.errors import OpenBaoUnavailable
from labkit.fleet import Fleet
from labkit.janitor import TOOL, recover
from labkit.lab import Lab
from labkit.ledger import Ledger
from labkit.openbao import CONFIG, Server

pytestmark = pytest.mark.anyio

NOTHING = r"NOT PURGED: nothing was deleted by this call\. OpenBao .+ while writing an operation down \(.+\): check .+"
MAYBE = (
    r"NOT PURGED: nothing was deleted by this call\. But it was confirmed, and may have been written down to be "
    r"finished later: look at what is there before you start over\. OpenBao .+ while writing an operation down \(.+"
)
DONE = re.escape(PURGED)
# At which step OpenBao is away: what is told, how many objects are left, what lies in the ledger.
AWAY: dict[str, tuple[str, int, list[str]]] = {
    "plan": (NOTHING, 4, []),
    "begin": (MAYBE, 4, ["planned"]),
    "finish": (DONE, 1, ["executing"]),
}
# The same where OpenBao does it, and its answer is lost on the way.
UNHEARD: dict[str, tuple[str, int, list[str]]] = {
    "plan": (NOTHING, 4, ["planned"]),
    "begin": (MAYBE, 4, ["executing"]),
    "finish": (DONE, 1, ["done"]),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def just_before(step: str, lab: Lab, bucket: Bucket, ledger: Ledger, happens: Callable[[], object]) -> MCPServer:
    """A janitor to which something happens right before it takes `step` in the ledger."""
    if step == "finish":
        return janitor(lab, Hooked(bucket, {"logs/3": happens}), ledger)
    return janitor(lab, bucket, ledger, Parking if step == "plan" else Redeeming, then=happens)


async def told(server: MCPServer) -> str:
    """What a user is told at last, who confirms if there is a question."""
    async with Client(server) as client:
        first: Any = await client.session.call_tool(TOOL, {"prefix": "logs/"}, allow_input_required=True)
        if not isinstance(first, CallToolResult):
            first = await attacks.confirm(client, attacks.Question("logs/", str(first.request_state)))
    return text_of(first)


@contextmanager
def rights(lab: Lab) -> Iterator[Callable[[], object]]:
    """What takes the ledger's rights away; they are given back in the end."""
    write = lab.admin.sys.create_or_update_policy
    try:
        yield lambda: write("ledger", "# may do nothing")
    finally:
        write("ledger", (CONFIG / "policies" / "ledger.hcl").read_text())


def assert_nothing_is_lost(ledger: Ledger, bucket: Bucket, left: int, states: list[str]) -> None:
    assert len(bucket.keys()) == left
    assert [ledger.read(name).state for name in ledger.names()] == states
    confirmed = states == ["executing"]
    assert recover(ledger, bucket, after=0) == confirmed
    assert len(bucket.keys()) == (1 if confirmed else left)
    assert recover(ledger, bucket, after=0) == 0


@pytest.mark.parametrize("step", AWAY)
async def test_a_right_that_is_taken_away_and_given_back(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket, step: str
) -> None:
    said, left, states = AWAY[step]
    with rights(own_namespace) as take:
        assert re.fullmatch(said, await told(just_before(step, own_namespace, bucket, ledger, take)))
    assert_nothing_is_lost(ledger, bucket, left, states)


def test_an_outage_in_the_middle_of_recovery_is_told_and_the_next_one_finishes(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    names = [after(ledger, "plan", "begin", plan=plan_of(bucket, keys=[key])) for key in ("logs/1", "logs/2")]
    with rights(own_namespace) as take:
        for doing, hooked in (("writing", Hooked(bucket, {"logs/1": take, "logs/2": take})), ("listing", bucket)):
            with pytest.raises(OpenBaoUnavailable, match=f"^OpenBao refused our token while {doing}"):
                recover(ledger, hooked, after=0)
            assert len(bucket.keys()) == 3
    assert recover(ledger, bucket, after=0) == 2
    assert bucket.keys() == ["logs/3", "secrets/root.key"]
    assert [ledger.read(name).state for name in names] == ["done", "done"]


@pytest.mark.parametrize("step", UNHEARD)
async def test_an_answer_that_is_lost_on_the_way(own_namespace: Lab, ledger: Ledger, bucket: Bucket, step: str) -> None:
    said, left, states = UNHEARD[step]
    client = own_namespace.client("ledger")

    def lost(*_: object, **__: object) -> None:
        raise requests.ConnectionError

    cut = just_before(
        step, own_namespace, bucket, Ledger(client), lambda: client.adapter.session.hooks["response"].append(lost)
    )
    assert re.fullmatch(said, await told(cut))
    assert_nothing_is_lost(ledger, bucket, left, states)


@pytest.fixture(scope="module")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnDisk]:
    """An OpenBao that is killed and comes back with all that it knew."""
    bao = OnDisk(tmp_path_factory.mktemp("openbao"))
    yield bao
    bao.kill()


@pytest.mark.parametrize("way", ["killed", "sealed"])
@pytest.mark.parametrize("step", AWAY)
async def test_a_server_that_is_gone_and_comes_back(bao: OnDisk, bucket: Bucket, step: str, way: str) -> None:
    said, left, states = AWAY[step]
    with Lab(Server(bao.address, bao.token)) as lab:
        ledger = Ledger(lab.client("ledger"))
        go = bao.kill if way == "killed" else hvac.Client(bao.address, token=bao.token).sys.seal
        assert re.fullmatch(said, await told(just_before(step, lab, bucket, ledger, go)))
        bao.restart()
        assert_nothing_is_lost(ledger, bucket, left, states)


def test_a_replica_that_recovers_goes_on_when_openbao_is_back(bao: OnDisk, bucket: Bucket) -> None:
    with Lab(Server(bao.address, bao.token)) as lab, Fleet(lab, bucket, count=1, recover_after=1) as fleet:
        bao.kill()
        eventually(
            lambda: "purges that were begun are not looked after for now: OpenBao" in "\n".join(fleet.log(0)),
            "it says that it cannot",
        )
        assert not any("Traceback" in line for line in fleet.log(0))
        bao.restart()
        after(Ledger(lab.client("ledger")), "plan", "begin", plan=plan_of(bucket))
        eventually(lambda: bucket.keys() == ["secrets/root.key"], "it is finished")
