"""Who reaches the ledger, what fits into it, and what is told when OpenBao is away."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import hvac
import hvac.exceptions
import pytest
from on_disk import OnDisk
from test_janitor import kill
from test_ledger import PLAN, STEPS, after, fresh
from test_single_use import answering, http

import labkit
from labkit import provision, single_use
from labkit.lab import Lab
from labkit.ledger import OPERATIONS, Ledger
from labkit.openbao import Server
from labkit.single_use import PlanTooLarge, SingleUse


@pytest.fixture(scope="module")
def on_raft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    bao = OnDisk(tmp_path_factory.mktemp("openbao"))
    with Lab(Server(bao.address, bao.token)) as lab:
        yield lab
    bao.kill()


@pytest.mark.parametrize("character", ["x", '"', "\\", "<", "&", "é", "𝄞", "\n", "\u2028"])
def test_the_largest_plan_that_can_be_parked_can_be_written_down(on_raft: Lab, character: str) -> None:
    claims, ledger = SingleUse(on_raft.client("confirmations")), Ledger(on_raft.client("ledger"))
    none, one = (single_use._stored_size(json.dumps({"keys": [character * times]})) for times in (0, 1))
    most = (single_use._PLAN_LIMIT - none) // (one - none)
    plan = {"keys": [character * most]}
    claims.issue(plan)
    with pytest.raises(PlanTooLarge):
        claims.issue({"keys": [character * (most + 1)]})
    name = after(ledger, *STEPS, plan=plan)
    assert (ledger.read(name).state, ledger.read(name).plan) == ("done", plan)


def test_no_other_role_reaches_the_ledger(own_namespace: Lab, ledger: Ledger) -> None:
    name = after(ledger, "plan")
    for role in set(provision.roles()) - {"ledger"}:
        adapter = own_namespace.client(role).adapter
        below = [f"/v1/secret/{kind}/{OPERATIONS}/{name}" for kind in ("data", "metadata")]
        for call, paths in {
            adapter.get: below,
            adapter.post: below,
            adapter.delete: below,
            adapter.list: below,
        }.items():
            for path in [*paths, f"/v1/secret/metadata/{OPERATIONS}"]:
                with pytest.raises(hvac.exceptions.Forbidden):
                    call(path)
    assert ledger.read(name).state == "planned"


@pytest.mark.parametrize(
    "call",
    [
        f"get secret/data/{provision.RING_PATH}",
        f"post secret/data/{provision.RING_PATH}",
        f"get secret/metadata/{OPERATIONS}/NAME",
        f"post secret/metadata/{OPERATIONS}/NAME",
        f"delete secret/data/{OPERATIONS}/NAME",
        f"post secret/destroy/{OPERATIONS}/NAME",
        f"post secret/data/{OPERATIONS}/NAME/below",
        f"list secret/metadata/{OPERATIONS}/NAME",
        "list secret/metadata/mcp",
        "get secret/config",
        f"post transit/decrypt/{provision.TRANSIT_KEY}",
        "post sys/wrapping/wrap",
        "post auth/token/create",
    ],
)
def test_the_role_that_writes_the_ledger_may_do_no_more(own_namespace: Lab, ledger: Ledger, call: str) -> None:
    method, path = call.replace("NAME", after(ledger, "plan")).split()
    with pytest.raises(hvac.exceptions.Forbidden):
        getattr(own_namespace.client("ledger").adapter, method)(f"/v1/{path}")


WRITING, READING, LISTING = "writing an operation down", "reading an operation", "listing operations"
CALLS: list[tuple[str, Callable[[Ledger], object]]] = [
    (WRITING, lambda ledger: ledger.plan(fresh(), PLAN)),
    (WRITING, lambda ledger: ledger.begin("0" * 32, PLAN)),
    (WRITING, lambda ledger: ledger.finish("0" * 32, PLAN)),
    (READING, lambda ledger: ledger.read("0" * 32)),
    (LISTING, lambda ledger: ledger.names()),
    (LISTING, lambda ledger: list(ledger.unfinished(0))),
    (LISTING, lambda ledger: ledger.forget(0)),
]


def assert_each_call_is_an_outage(ledger: Ledger, how: str) -> None:
    for doing, call in CALLS:
        with pytest.raises(labkit.OpenBaoUnavailable, match=rf"^OpenBao {how} while {doing} \(") as caught:
            call(ledger)
        assert "logs/1" not in str(caught.value)


def test_a_server_that_is_sealed_and_then_dead_is_an_outage(own_lab: Lab) -> None:
    ledger = Ledger(own_lab.client("ledger"))
    own_lab._server.client("", token=own_lab._server.token).sys.seal()
    assert_each_call_is_an_outage(ledger, "failed")
    kill(own_lab)
    assert_each_call_is_an_outage(ledger, "is unreachable")


def test_a_role_without_the_right_is_an_outage(own_namespace: Lab) -> None:
    assert_each_call_is_an_outage(Ledger(own_namespace.client("ring-reader")), "refused our token")


@pytest.mark.parametrize("page", [http(200, "<html>Sign in</html>", "text/html"), http(204), http(200, "{}")])
@pytest.mark.parametrize(("doing", "call"), CALLS[3:5])
def test_an_answer_that_is_none_is_an_outage_and_not_an_empty_ledger(
    page: bytes, doing: str, call: Callable[[Ledger], object]
) -> None:
    port: list[int] = []
    with answering([page], port), pytest.raises(labkit.OpenBaoUnavailable, match=f"while {doing}"):
        call(Ledger(Server(f"http://127.0.0.1:{port[0]}", "").client("")))
