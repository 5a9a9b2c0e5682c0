"""A purge that is confirmed is finished by somebody, whatever becomes of whoever began it; one that is not, never."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mcp import Client
from recovering import KEYS, PURGED, Hooked, fails, janitor, plan_of, purge
from test_janitor import NO, REVOKED, reply
from test_ledger import MALFORMED, after, write

from labkit import attacks
from labkit.attacks import text_of
from labkit.bucket import Bucket
from labkit.janitor import REFUSALS, recover
from labkit.lab import Lab
from labkit.ledger import OPERATIONS, Ledger

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_purge_is_written_down_before_the_question_and_done_after_the_answer(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    seen: list[str] = []
    (begun := Hooked(bucket, {})).before["logs/1"] = lambda: seen.append(ledger.read(ledger.names()[0]).state)
    async with Client(janitor(own_namespace, begun, ledger)) as client:
        question = await attacks.ask(client, "logs/")
        (name,) = ledger.names()
        assert (ledger.read(name).state, ledger.read(name).plan) == ("planned", plan_of(bucket, operation=name))
        assert text_of(await attacks.confirm(client, question)) == PURGED
        assert seen == ["executing"]
        assert ledger.read(name).state == "done"
        assert recover(ledger, bucket, after=0) == 0
        bucket.put("logs/1")
        assert text_of(await attacks.replay(client, question)) == REFUSALS["already redeemed"]
    assert recover(ledger, bucket, after=0) == 0
    assert bucket.keys() == ["logs/1", "secrets/root.key"]


async def test_what_nobody_confirmed_is_never_recovered(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket, later: Callable[[float], None]
) -> None:
    async with Client(janitor(own_namespace, bucket, ledger)) as client:
        await attacks.ask(client, "logs/")
        assert text_of(await reply(client, await attacks.ask(client, "logs/"), NO)) == REVOKED
        altered = attacks.tamper_one_byte(client, await attacks.ask(client, "logs/"))
        assert await attacks.verdict(altered) == "error -32602: Invalid or expired requestState"
    later(1e6)
    assert recover(ledger, bucket, after=0) == 0
    assert len(bucket.keys()) == 4
    assert [ledger.read(name).state for name in ledger.names()] == ["planned"] * 3
    assert ledger.forget(keep=300) == 3


def test_recovery_finishes_what_was_begun_and_no_more_and_once(ledger: Ledger, bucket: Bucket) -> None:
    name = after(ledger, "plan", "begin", plan=plan_of(bucket, principal="alice"))
    bucket.delete("logs/2")
    bucket.put("logs/new")
    assert recover(ledger, bucket, after=0) == 1
    assert bucket.keys() == ["logs/new", "secrets/root.key"]
    assert ledger.read(name).state == "done"
    bucket.put("logs/1")
    assert recover(ledger, bucket, after=0) == 0
    assert bucket.keys() == ["logs/1", "logs/new", "secrets/root.key"]


def test_recovery_waits_for_so_long_by_openbaos_clock(
    ledger: Ledger, bucket: Bucket, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    after(ledger, "plan", "begin", plan=plan_of(bucket))
    monkeypatch.setattr("time.time", lambda: 4e9)
    later(57)
    assert recover(ledger, bucket) == 0
    assert len(bucket.keys()) == 4
    later(4.5)
    assert recover(ledger, bucket) == 1
    assert bucket.keys() == ["secrets/root.key"]


async def test_a_purge_of_a_server_that_is_at_work_is_left_to_it(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    done: list[object] = []
    working = Hooked(bucket, {"logs/2": lambda: done.append((recover(ledger, bucket, after=60), bucket.keys("logs/")))})
    assert await purge(janitor(own_namespace, working, ledger)) == PURGED
    assert done == [(0, ["logs/2", "logs/3"])]


async def test_a_server_that_was_too_slow_and_the_one_that_took_over_agree_on_the_end(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    slow = Hooked(bucket, {"logs/2": lambda: recover(Ledger(own_namespace.client("ledger")), bucket, after=0)})
    said = await purge(janitor(own_namespace, slow, ledger))
    assert said == "Purged 1 object(s): logs/1; 2 had vanished since the question: logs/2, …"
    assert bucket.keys() == ["secrets/root.key"]
    assert ledger.read(ledger.names()[0]).state == "done"


def test_two_that_recover_at_once_finish_it_together(own_namespace: Lab, ledger: Ledger, bucket: Bucket) -> None:
    both, start = [Ledger(own_namespace.client("ledger")) for _ in range(2)], threading.Barrier(2)

    def at_once(one: Ledger) -> int:
        gate = Hooked(bucket, {"logs/1": lambda: start.wait(timeout=60)})
        return recover(one, gate, after=0)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            bucket.reset([*KEYS, "secrets/root.key"])
            name = after(ledger, "plan", "begin", plan=plan_of(bucket))
            assert list(pool.map(at_once, both)) == [1, 1]
            assert bucket.keys() == ["secrets/root.key"]
            assert ledger.read(name).state == "done"


SPOILED: dict[str, dict[str, Any]] = {
    "a key outside of the prefix": {"keys": [*KEYS, "secrets/root.key"]},
    "no prefix": {"arguments": {"hidden": 1}},
    "an empty prefix": {"arguments": {"prefix": ""}},
    "a prefix that is none": {"arguments": {"prefix": ["hidden"]}},
    "arguments that are none": {"arguments": "hidden"},
    "keys that are no list": {"keys": "logs/hidden"},
    "keys that are none": {"keys": None},
    "a key that is none": {"keys": [*KEYS, {"hidden": 1}]},
}


def executing(plan: dict[str, Any]) -> tuple[dict[str, Any], int]:
    return {"state": "executing", "plan": json.dumps(plan)}, 2


@pytest.mark.parametrize("kind", [*MALFORMED, *SPOILED])
def test_a_record_that_is_spoiled_deletes_nothing_and_keeps_nobody_else_waiting(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    record = MALFORMED[kind] if kind in MALFORMED else executing(plan_of(bucket, **SPOILED[kind]))
    first, last = write(own_namespace, "0" * 32, *record), write(own_namespace, "f" * 32, *record)
    after(ledger, "plan", "begin", plan=plan_of(bucket, keys=["logs/2"]))
    with caplog.at_level(logging.DEBUG, logger="labkit"):
        assert recover(ledger, bucket, after=0) == 1
    assert bucket.keys() == ["logs/1", "logs/3", "secrets/root.key"]
    lines = [entry.getMessage() for entry in caplog.records if entry.levelname == "ERROR"]
    assert [name in line for name, line in zip((first, last), lines, strict=True)] == [True, True]
    assert "hidden" not in caplog.text
    assert {first, last} <= set(ledger.names())


@pytest.mark.parametrize("how", ["removed", "spoiled"])
def test_a_record_that_changes_meanwhile_keeps_nobody_else_waiting(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket, how: str
) -> None:
    plans = {name: plan_of(bucket, keys=[key]) for name, key in (("0" * 32, "logs/1"), ("f" * 32, "logs/2"))}
    for name, plan in plans.items():
        ledger.plan(name, plan)
        ledger.begin(name, plan)
    changing = Hooked(bucket, {"logs/1": lambda: change(own_namespace, "0" * 32, how)})
    recover(ledger, changing, after=0)
    assert bucket.keys() == ["logs/3", "secrets/root.key"]
    assert ledger.read("f" * 32).state == "done"


def change(lab: Lab, name: str, how: str) -> None:
    if how == "spoiled":
        write(lab, name, {"state": "nothing"}, 1)
    else:
        lab.admin.secrets.kv.v2.delete_metadata_and_all_versions(f"{OPERATIONS}/{name}", mount_point="secret")


@pytest.mark.parametrize("how", ["removed", "spoiled"])
async def test_a_purge_that_is_done_is_told_whatever_became_of_its_record(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket, how: str
) -> None:
    changing = Hooked(bucket, {"logs/2": lambda: change(own_namespace, ledger.names()[0], how)})
    assert await purge(janitor(own_namespace, changing, ledger)) == PURGED
    assert bucket.keys() == ["secrets/root.key"]


async def test_what_could_not_be_deleted_is_told_and_tried_again_by_recovery(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    said = await purge(janitor(own_namespace, Hooked(bucket, {"logs/2": fails}), ledger))
    assert said == "Purged 2 object(s): logs/1, …; 1 could not be deleted: logs/2. The rest will be tried again."
    assert bucket.keys() == ["logs/2", "secrets/root.key"]
    (name,) = ledger.names()
    assert recover(ledger, Hooked(bucket, {"logs/2": fails}), after=0) == 0
    assert ledger.read(name).state == "executing"
    assert ledger.forget(keep=0) == 0
    assert recover(ledger, bucket, after=0) == 1
    assert ledger.read(name).state == "done"
    assert bucket.keys() == ["secrets/root.key"]


def test_what_cannot_be_deleted_keeps_nobody_else_waiting(ledger: Ledger, bucket: Bucket) -> None:
    names = [after(ledger, "plan", "begin", plan=plan_of(bucket, keys=[key])) for key in KEYS]
    assert recover(ledger, Hooked(bucket, {"logs/2": fails}), after=0) == 2
    assert [ledger.read(name).state for name in names] == ["done", "executing", "done"]


async def test_1500_keys_in_one_plan_are_purged_and_recovered(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    bucket.reset([f"logs/{number:04}" for number in range(1_500)])
    said = await purge(janitor(own_namespace, Hooked(bucket, {"logs/0700": fails}), ledger))
    assert said.startswith("Purged 1499 object(s): logs/0000, …; 1 could not be deleted: logs/0700.")
    assert recover(ledger, bucket, after=0) == 1
    assert bucket.keys() == []


@pytest.mark.parametrize(
    "different", [{"tool": "archive_objects"}, {"tool": None}, {"bucket": "/elsewhere"}, {"bucket": None}]
)
def test_what_was_begun_for_another_tool_or_bucket_is_left_to_its_servers(
    ledger: Ledger, bucket: Bucket, caplog: pytest.LogCaptureFixture, different: dict[str, Any]
) -> None:
    name = after(ledger, "plan", "begin", plan=plan_of(bucket, **different))
    assert recover(ledger, bucket, after=0) == 0
    assert len(bucket.keys()) == 4
    assert ledger.read(name).state == "executing"
    assert caplog.text == ""


async def test_a_plan_that_was_parked_without_a_ledger_is_purged_once_by_a_janitor_with_one(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    async with Client(janitor(own_namespace, bucket, None)) as without:
        question = await attacks.ask(without, "logs/")
    async with Client(janitor(own_namespace, bucket, ledger)) as within:
        assert text_of(await attacks.confirm(within, question)) == PURGED
        bucket.put("logs/1")
        assert text_of(await attacks.confirm(within, question)) == REFUSALS["already redeemed"]
    assert bucket.keys() == ["logs/1", "secrets/root.key"]
    assert ledger.names() == []


async def test_a_purge_whose_record_was_forgotten_is_refused(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    async with Client(janitor(own_namespace, bucket, ledger)) as client:
        question = await attacks.ask(client, "logs/")
        assert ledger.forget(keep=0, unconfirmed=0) == 1
        assert text_of(await attacks.confirm(client, question)) == REFUSALS["already redeemed"]
    assert len(bucket.keys()) == 4


async def test_a_plan_that_was_written_down_is_purged_once_by_a_janitor_without_a_ledger(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    async with Client(janitor(own_namespace, bucket, ledger)) as within:
        question = await attacks.ask(within, "logs/")
        async with Client(janitor(own_namespace, bucket, None)) as without:
            assert text_of(await attacks.confirm(without, question)) == PURGED
        bucket.put("logs/1")
        assert text_of(await attacks.confirm(within, question)) == REFUSALS["already redeemed"]
    assert recover(ledger, bucket, after=0) == 0
    assert bucket.keys() == ["logs/1", "secrets/root.key"]


async def test_of_two_replicas_with_a_ledger_one_purges(own_namespace: Lab, bucket: Bucket, ledger: Ledger) -> None:
    one, other = (janitor(own_namespace, Bucket(bucket.folder), Ledger(own_namespace.client("ledger"))) for _ in "ab")
    async with Client(one) as a, Client(other) as b:
        for _ in range(20):
            bucket.reset([*KEYS, "secrets/root.key"])
            question = await attacks.ask(a, "logs/")
            ends = await asyncio.gather(attacks.confirm(a, question), attacks.confirm(b, question))
            assert sorted(map(text_of, ends)) == [PURGED, REFUSALS["already redeemed"]]
            assert bucket.keys() == ["secrets/root.key"]
    assert {ledger.read(name).state for name in ledger.names()} == {"done"}
