"""The ledger takes each step once, tells what was begun and is not done, and is bent by nothing that lies in it."""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hvac
import hvac.exceptions
import pytest
from hypothesis import given
from test_single_use import on_a_server, plans
from waiting import eventually

from labkit.lab import Lab
from labkit.ledger import OPERATIONS, InvalidOperation, Ledger, NotPlanned
from labkit.openbao import Server

PLAN = {"tool": "purge_objects", "keys": ["logs/1"]}
STEPS = ("plan", "begin", "finish")
STATES = dict(zip(STEPS, ("planned", "executing", "done"), strict=True))


def fresh() -> str:
    return secrets.token_hex(16)


def after(ledger: Ledger, *steps: str, plan: dict[str, Any] = PLAN) -> str:
    """The name of an operation with which these steps were taken."""
    name = fresh()
    for step in steps:
        getattr(ledger, step)(name, plan)
    return name


def write(lab: Lab, name: str, record: dict[str, Any], times: int = 2) -> str:
    """Write to the ledger as whoever may do so, with no regard for its rules."""
    for _ in range(times):
        lab.admin.secrets.kv.v2.create_or_update_secret(f"{OPERATIONS}/{name}", record, mount_point="secret")
    return name


def test_an_operation_is_planned_then_executing_then_done(ledger: Ledger) -> None:
    name = fresh()
    for step in STEPS:
        getattr(ledger, step)(name, PLAN)
        operation = ledger.read(name)
        assert (operation.name, operation.state, operation.plan) == (name, STATES[step], PLAN)
        assert 0 <= operation.age < 60
        assert "logs/1" not in repr(operation)
    assert ledger.names() == [name]


@pytest.mark.parametrize(
    ("taken", "refused"),
    [(0, "begin"), (0, "finish"), (1, "plan"), (1, "finish"), (2, "plan"), (2, "begin"), (3, "plan"), (3, "begin")],
)
def test_no_step_is_taken_twice_nor_out_of_turn(ledger: Ledger, taken: int, refused: str) -> None:
    name = after(ledger, *STEPS[:taken])
    with pytest.raises(NotPlanned):
        getattr(ledger, refused)(name, {"keys": ["other"]})
    if taken:
        assert (ledger.read(name).state, ledger.read(name).plan) == (STATES[STEPS[taken - 1]], PLAN)
    else:
        assert ledger.names() == []


def test_finishing_twice_is_as_good_as_once_whoever_does_it(own_namespace: Lab, ledger: Ledger) -> None:
    name = after(ledger, *STEPS)
    ledger.finish(name, PLAN)
    Ledger(own_namespace.client("ledger")).finish(name, PLAN)
    assert ledger.read(name).state == "done"


@pytest.mark.parametrize(("before", "step", "winners"), [(0, "plan", 1), (1, "begin", 1), (2, "finish", 8)])
def test_of_eight_servers_at_once_exactly_one_takes_a_step_and_all_of_them_know_that_it_is_done(
    own_namespace: Lab, ledger: Ledger, before: int, step: str, winners: int
) -> None:
    servers = [Ledger(own_namespace.client("ledger")) for _ in range(8)]
    start = threading.Barrier(8)

    def take(server: Ledger, name: str) -> bool:
        start.wait(timeout=60)
        try:
            getattr(server, step)(name, PLAN)
        except NotPlanned:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            name = after(ledger, *STEPS[:before])
            assert sum(pool.map(take, servers, [name] * 8)) == winners
            assert ledger.read(name).state == STATES[step]


@pytest.mark.parametrize(
    "name",
    [
        "", "0" * 31, "0" * 33, "A" * 32, "٠" * 32, "0" * 32 + "\n", "0" * 31 + "/", "../request-state-keys",
        f"../operations/{'0' * 32}", "%2e%2e/request-state-keys", "None",
    ],
)  # fmt: skip
def test_a_name_is_no_path_and_openbao_is_not_even_asked(name: str) -> None:
    nowhere = Ledger(Server("http://127.0.0.1:1", "").client(""))
    for attempt in (nowhere.plan, nowhere.begin, nowhere.finish):
        with pytest.raises(NotPlanned):
            attempt(name, PLAN)
    with pytest.raises(NotPlanned):
        nowhere.read(name)


def test_what_is_elsewhere_or_forgotten_cannot_be_begun(
    lab: Lab, own_namespace: Lab, ledger: Ledger, later: Callable[[float], None]
) -> None:
    name = after(ledger, "plan")
    with pytest.raises(NotPlanned):
        Ledger(lab.client("ledger")).begin(name, PLAN)
    later(60)
    assert ledger.forget(keep=50, unconfirmed=50) == 1
    with pytest.raises(NotPlanned):
        ledger.begin(name, PLAN)
    assert ledger.names() == []


@given(plans)
@on_a_server
def test_a_plan_comes_back_as_it_was_written_down(ledger: Ledger, plan: dict[str, Any]) -> None:
    assert ledger.read(after(ledger, "plan", plan=plan)).plan == plan


def test_only_what_is_executing_is_unfinished_and_only_after_so_long_by_openbaos_clock(
    ledger: Ledger, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    after(ledger, "plan")
    after(ledger, *STEPS)
    begun = after(ledger, "plan", "begin")
    monkeypatch.setattr("time.time", lambda: 4e9)  # what our own clock says is nobody's business
    assert list(ledger.unfinished(60)) == []
    later(57)
    assert list(ledger.unfinished(60)) == []
    later(4.5)
    assert [(each.name, each.plan) for each in ledger.unfinished(60)] == [(begun, PLAN)]
    assert [each.name for each in ledger.unfinished(0)] == [begun]


def test_the_age_is_that_of_the_state_and_not_of_the_operation(ledger: Ledger) -> None:
    name = after(ledger, "plan")
    eventually(lambda: ledger.read(name).age >= 2, "it gets older")
    ledger.begin(name, PLAN)
    assert ledger.read(name).age < 2


def test_done_and_never_confirmed_is_forgotten_and_what_is_executing_never(
    own_namespace: Lab, ledger: Ledger, later: Callable[[float], None]
) -> None:
    planned, begun, done = (after(ledger, *STEPS[:taken]) for taken in (1, 2, 3))
    later(57)
    assert ledger.forget(keep=60, unconfirmed=60) == 0
    assert sorted(ledger.names()) == sorted([planned, begun, done])
    later(4.5)
    assert ledger.forget(keep=60) == 1
    assert sorted(ledger.names()) == sorted([planned, begun]), "a claim may live for longer than that"
    assert ledger.forget(keep=60, unconfirmed=60) == 1
    assert ledger.names() == [begun]
    assert ledger.forget(keep=0, unconfirmed=0) == 0
    for name in (planned, done):
        with pytest.raises(hvac.exceptions.InvalidPath):  # no version is left to read back
            own_namespace.admin.secrets.kv.v2.read_secret_metadata(f"{OPERATIONS}/{name}", mount_point="secret")
    ledger.finish(begun, PLAN)
    assert ledger.read(begun).state == "done"


TEXT = json.dumps(PLAN | {"secret": "hidden"})
MALFORMED: dict[str, tuple[dict[str, Any], int]] = {
    "a state that there is not": ({"state": "hidden", "plan": TEXT}, 2),
    "a state of another version": ({"state": "executing", "plan": TEXT}, 1),
    "a version that is too high": ({"state": "executing", "plan": TEXT}, 3),
    "done before it was begun": ({"state": "done", "plan": TEXT}, 2),
    "a state that is a list": ({"state": ["executing"], "plan": TEXT}, 2),
    "a plan that is no JSON": ({"state": "executing", "plan": "hidden"}, 2),
    "a plan that is a structure": ({"state": "executing", "plan": PLAN | {"secret": "hidden"}}, 2),
    "a plan that is no object": ({"state": "executing", "plan": '["hidden"]'}, 2),
    "a plan of 5,000 digits": ({"state": "executing", "plan": "9" * 5000}, 2),
    "a plan nested without end": ({"state": "executing", "plan": '{"hidden":' + "[" * 200_000}, 2),
    "no plan": ({"state": "executing"}, 2),
    "no state": ({"plan": TEXT}, 2),
    "nothing": ({}, 2),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_no_operation_is_logged_without_its_content_and_hides_no_other(
    own_namespace: Lab, ledger: Ledger, later: Callable[[float], None], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    others = [after(ledger, "plan", "begin") for _ in range(3)]
    name = write(own_namespace, fresh(), *MALFORMED[kind])
    with caplog.at_level(logging.DEBUG, logger="labkit"):
        assert sorted(each.name for each in ledger.unfinished(0)) == sorted(others)
    told = f"What lies at secret/{OPERATIONS}/{name} is no operation: look at who wrote it, and remove it."
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("ERROR", told)]
    with pytest.raises(InvalidOperation, match=re.escape(told)):
        ledger.read(name)
    later(1e6)
    assert ledger.forget(keep=0) == 0
    assert name in ledger.names()
    assert "hidden" not in caplog.text


@pytest.mark.parametrize("how", ["delete_latest_version_of_secret", "destroy"])
def test_what_somebody_has_deleted_is_no_operation_any_more(own_namespace: Lab, ledger: Ledger, how: str) -> None:
    name, other = after(ledger, "plan", "begin"), after(ledger, "plan", "begin")
    kv, where = own_namespace.admin.secrets.kv.v2, f"{OPERATIONS}/{name}"
    if how == "destroy":
        kv.destroy_secret_versions(where, [2], mount_point="secret")
    else:
        kv.delete_latest_version_of_secret(where, mount_point="secret")
    assert [each.name for each in ledger.unfinished(0)] == [other]
    for attempt in (ledger.read, lambda name: ledger.begin(name, PLAN)):
        with pytest.raises(NotPlanned):
            attempt(name)


def test_a_name_that_is_none_of_ours_is_passed_over(own_namespace: Lab, ledger: Ledger) -> None:
    for name in ("notes", "A" * 32, f"{fresh()}/{fresh()}", f"x{fresh()}"):
        write(own_namespace, name, {"state": "executing", "plan": TEXT})
    assert ledger.names() == []
    assert list(ledger.unfinished(0)) == []
    assert ledger.forget(keep=0) == 0
