"""A server dies in the middle of a purge. Without a ledger that is the end of it; with one, another server goes on."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from recovering import KEYS, PURGED
from test_fleet import listens
from waiting import eventually

import labkit
from labkit import attacks, crash, provision
from labkit.balancer import Balancer
from labkit.bucket import Bucket
from labkit.crash import Doomed
from labkit.fleet import Fleet
from labkit.janitor import REFUSALS, recover
from labkit.lab import Lab
from labkit.ledger import Ledger
from labkit.wire import over_http

if TYPE_CHECKING:
    from conftest import Kernel

CUT_OFF = "error -32603: Server returned an error response"


@pytest.fixture
def urls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where each replica that is to die listens behind its balancer."""
    seen: list[str] = []

    class Noting(Balancer):
        def __init__(self, urls: list[str], served: list[str]) -> None:
            seen.extend(urls)
            super().__init__(urls, served)

    monkeypatch.setattr(crash, "Balancer", Noting)
    return seen


def purge(url: str) -> list[str]:
    """Confirm a purge, and once more: what is said."""

    async def rounds() -> list[str]:
        async with over_http(url) as (client, _):
            question = await attacks.ask(client, "logs/")
            return [await attacks.verdict(attacks.confirm(client, question)) for _ in range(2)]

    return asyncio.run(rounds())


# The step after which it dies, and the objects that are left.
WITHOUT = {1: 3, 2: 2, 3: 1, 4: 0}
WITH = {1: (3, "planned"), 2: (3, "executing"), 3: (2, "executing"), 4: (1, "executing"), 5: (0, "executing")}


@pytest.mark.parametrize("step", WITHOUT)
def test_without_a_ledger_what_a_dead_server_has_not_deleted_stays(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket, urls: list[str], step: int
) -> None:
    with Doomed(own_namespace, bucket, dies_after=step) as doomed:
        assert purge(doomed.url) == [CUT_OFF, CUT_OFF]
        assert doomed.died()
        assert not listens(urls[0])
    left = KEYS[3 - WITHOUT[step] :]
    assert bucket.keys() == [*left, "secrets/root.key"]
    assert ledger.names() == []
    assert recover(ledger, bucket, after=0) == 0
    assert bucket.keys() == [*left, "secrets/root.key"]


@pytest.mark.parametrize("step", WITH)
def test_with_a_ledger_another_server_finishes_what_was_begun(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket, step: int
) -> None:
    left, state = WITH[step]
    with Doomed(own_namespace, bucket, dies_after=step, ledger=True) as doomed:
        assert purge(doomed.url) == [CUT_OFF, CUT_OFF]
        assert doomed.died()
    (name,) = ledger.names()
    assert bucket.keys("logs/") == KEYS[3 - left :]
    assert ledger.read(name).state == state
    begun = state == "executing"
    assert recover(ledger, bucket, after=0) == begun
    assert bucket.keys("logs/") == ([] if begun else KEYS)
    assert ledger.read(name).state == ("done" if begun else "planned")
    assert recover(ledger, bucket, after=0) == 0
    assert bucket.keys("secrets/") == ["secrets/root.key"]


def test_a_server_that_dies_when_all_is_done_leaves_nothing_to_recover(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    with Doomed(own_namespace, bucket, dies_after=6, ledger=True) as doomed:
        assert purge(doomed.url)[0] == CUT_OFF
        assert doomed.died()
    assert bucket.keys() == ["secrets/root.key"]
    assert [ledger.read(name).state for name in ledger.names()] == ["done"]
    assert recover(ledger, bucket, after=0) == 0


@pytest.mark.parametrize("with_ledger", [False, True])
def test_one_that_is_not_to_die_serves_as_any_other_and_leaves_nothing_behind(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket, urls: list[str], with_ledger: bool
) -> None:
    threads = set(threading.enumerate())
    with Doomed(own_namespace, bucket, dies_after=None, ledger=with_ledger) as doomed:
        assert purge(doomed.url) == [PURGED, REFUSALS["already redeemed"]]
        assert [ledger.read(name).state for name in ledger.names()] == ["done"] * with_ledger
        assert multiprocessing.active_children() != []
        assert all(map(listens, [doomed.url, *urls]))
    assert not any(map(listens, [doomed.url, *urls]))
    assert multiprocessing.active_children() == []
    assert set(threading.enumerate()) == threads
    doomed.close()  # twice does no harm


def test_one_that_cannot_start_is_one_sentence_and_leaves_nothing_behind(own_namespace: Lab, bucket: Bucket) -> None:
    kv, threads = own_namespace.admin.secrets.kv.v2, set(threading.enumerate())
    good = kv.read_secret_version(provision.RING_PATH, mount_point="secret", raise_on_deleted_version=True)
    try:
        kv.create_or_update_secret(provision.RING_PATH, secret={"keys": "xyz"}, mount_point="secret")
        with pytest.raises(labkit.LabError, match=r"^A replica did not start: run `python -m labkit doctor`\.$"):
            Doomed(own_namespace, bucket)
    finally:
        kv.create_or_update_secret(provision.RING_PATH, secret=good["data"]["data"], mount_point="secret")
    assert multiprocessing.active_children() == []
    assert set(threading.enumerate()) == threads


def test_one_without_an_openbao_is_one_sentence(own_lab: Lab, bucket: Bucket) -> None:
    own_lab._server.close()
    with pytest.raises(labkit.LabError, match=r"^OpenBao is unreachable while .+\.$"):
        Doomed(own_lab, bucket)
    assert multiprocessing.active_children() == []


def test_one_whose_start_is_interrupted_leaves_nothing_behind(
    own_namespace: Lab, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(crash, "Balancer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Doomed(own_namespace, bucket)
    left = multiprocessing.active_children()
    for process in left:  # what a failing test leaves would disturb others
        process.kill()
    assert left == []


START = """if True:
    from labkit import crash
    class Noting(crash.Balancer):
        def __init__(self, urls, served):
            print(*urls)
            super().__init__(urls, served)
    crash.Balancer = Noting
    doomed = crash.Doomed(lab, labkit.Bucket({folder!r}), dies_after=None, ledger=True)
    print(doomed.url)
"""


def test_it_survives_an_interrupt_of_the_kernel(kernel: Kernel, bucket: Bucket) -> None:
    urls = kernel.run(START.format(folder=str(bucket.folder))).split()
    assert kernel.interrupt() == "KeyboardInterrupt"
    assert all(map(listens, urls))
    assert purge(urls[1])[0] == PURGED


def descendants(pid: int) -> set[str]:
    """Whatever runs and was started by `pid`, or by what it started."""
    ps = ["ps", "-eo", "pid=,ppid=,stat="]
    lines = [line.split() for line in subprocess.run(ps, capture_output=True, text=True).stdout.splitlines()]
    parents = {child: parent for child, parent, state in lines if not state.startswith("Z")}
    found = {str(pid)} & parents.keys()
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def test_it_goes_with_a_kernel_that_is_killed(kernel: Kernel, tmp_path: Path) -> None:
    urls = kernel.run(START.format(folder=str(tmp_path))).split()
    assert len(urls) == 2
    assert all(map(listens, urls))
    processes = descendants(kernel.pid)
    assert len(processes) > 4, "OpenBao, its watchdog, the replica and what it was forked from"
    os.kill(kernel.pid, signal.SIGKILL)
    eventually(lambda: not any(map(listens, urls)), "balancer and replica are gone")
    eventually(lambda: not any(map(descendants, map(int, processes))), "and every process")


def test_of_two_replicas_one_is_killed_in_the_middle_and_the_other_finishes_by_itself(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    keys = [f"logs/{number:04}" for number in range(1_000)]
    first = bucket.folder / "logs%2F0000"

    async def rounds(fleet: Fleet) -> tuple[str, str]:
        async with over_http(fleet.url) as (client, _):
            question = await attacks.ask(client, "logs/")
            answering = 1 - fleet.replicas.index(fleet.served[-1])
            confirming = asyncio.create_task(attacks.verdict(attacks.confirm(client, question)))
            await asyncio.to_thread(kill_in_the_middle, fleet, answering)
            return await confirming, await attacks.verdict(attacks.confirm(client, question))

    def kill_in_the_middle(fleet: Fleet, number: int) -> None:
        deadline = time.monotonic() + 30
        while first.exists():
            assert time.monotonic() < deadline, "it has not begun"
            time.sleep(0.001)
        fleet.kill(number)
        left.append(len(bucket.keys("logs/")))

    left: list[int] = []
    with Fleet(own_namespace, bucket, recover_after=1) as fleet:
        bucket.reset([*keys, "secrets/root.key"])
        assert asyncio.run(rounds(fleet)) == (CUT_OFF, REFUSALS["already redeemed"])
        assert 0 < left[0] < 1_000, "it was killed in the middle"
        eventually(lambda: bucket.keys() == ["secrets/root.key"], "the other one finishes it")
        (name,) = [each for each in ledger.names() if ledger.read(each).plan]  # beside the two that found out the right
        eventually(lambda: ledger.read(name).state == "done", "and notes it")
        logs = [line for number in range(2) for line in fleet.log(number)]
    assert [line for line in logs if "finished 1 purge(s) that had been begun" in line]
    assert not [line for line in logs if "Traceback" in line or "logs/" in line]


def test_replicas_with_a_ledger_purge_as_any_other_and_each_has_a_login_for_it(
    own_namespace: Lab, ledger: Ledger, bucket: Bucket
) -> None:
    with Fleet(own_namespace, bucket, recover_after=300) as fleet:
        assert purge(fleet.url) == [PURGED, REFUSALS["already redeemed"]]
        ids = {(child.folder / "ledger.secret-id").read_text() for child in fleet._children}
        assert len(ids) == 2
        assert [fleet.log(number) for number in range(2)] == [[], []]
    assert [ledger.read(name).state for name in ledger.names()].count("done") == 1
    with pytest.raises(labkit.LabError, match=r"^A replica did not start: .*'0' is no number of seconds"):
        Fleet(own_namespace, bucket, count=1, recover_after=0)
