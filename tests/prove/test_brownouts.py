"""Whatever happens to OpenBao: what was not confirmed stays, nothing goes twice, and users are told the truth.

Two hundred flows for each kind of trouble, eight at a time. Trouble comes again and again, each time until it has hit
some of them, so nothing depends on luck. Whoever meets it tries again when it is over, as the message says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import hvac
import hvac.exceptions
import pytest
from flows import ASKED, GONE_UNUSED, PATIENCE, PURGED, REFUSED, REVOKED, TOO_LATE, Flow, Service
from mcp import Client
from on_disk import OnDisk
from waiting import eventually, stopped

from labkit.checks import log_lines, logged_reasons
from labkit.lab import Lab
from labkit.openbao import Server, find_or_start

pytestmark = pytest.mark.anyio
SIZE = float(os.environ.get("SIZE", "1"))
SEED = int(os.environ.get("SEED", "20260728"))
FLOWS = max(20, int(200 * SIZE))
AT_A_TIME = 8
EVERY = 20  # flows from one trouble to the next
HIT = 4  # answers that each trouble has to spoil before it is over
WISHES = ["accept", "accept", "accept", "decline", None]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def raft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnDisk]:
    bao = OnDisk(tmp_path_factory.mktemp("openbao"))
    yield bao
    bao.kill()


def pid_of(lab: Lab) -> int:
    return lab._server._child.process.pid


@contextlib.contextmanager
def slowed(lab: Lab) -> Iterator[None]:
    """It runs for some hundredths of a second, and stands still for up to twice as long as anybody waits."""
    chance, over = random.Random(SEED), threading.Event()  # noqa: S311 - it chooses delays, not keys

    def turns() -> None:
        while not over.wait(chance.uniform(0.005, 0.05)):
            with stopped(lab):
                over.wait(chance.uniform(0.05, 2 * PATIENCE))

    thread = threading.Thread(target=turns)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def sealed(raft: OnDisk) -> Iterator[None]:
    hvac.Client(raft.address, token=raft.token).sys.seal()
    try:
        yield
    finally:
        raft._unseal()


@contextlib.contextmanager
def killed(raft: OnDisk) -> Iterator[None]:
    raft.kill()
    try:
        yield
    finally:
        raft.restart()


@contextlib.contextmanager
def logged_out(lab: Lab) -> Iterator[None]:
    """Every login is revoked; and in this lab, each lives no longer than a second anyway."""
    for client in lab._clients:
        if hasattr(client.adapter, "identity"):
            with contextlib.suppress(hvac.exceptions.VaultError):  # it has expired before
                lab.admin.auth.token.revoke(client.token)
    yield


@contextlib.contextmanager
def without_audit(lab: Lab) -> Iterator[None]:
    """The disk is full where the audit log lies; and OpenBao does nothing that it cannot write down."""

    def refuses() -> bool:
        try:
            lab.admin.auth.token.lookup_self()
        except hvac.exceptions.InternalServerError:
            return True
        return False

    def opened_anew(log: Path) -> None:
        log.replace(lab._server.folder / "audit.log")
        os.kill(pid_of(lab), signal.SIGHUP)

    full = lab._server.folder / "full.log"
    full.symlink_to("/dev/full")
    opened_anew(full)
    try:
        eventually(refuses, "OpenBao refuses what it cannot write down")
        yield
    finally:
        room = lab._server.folder / "room.log"
        room.touch()
        opened_anew(room)
        eventually(lambda: not refuses(), "OpenBao writes its audit log again")


TROUBLES = {each.__name__: each for each in (stopped, slowed, sealed, killed, logged_out, without_audit)}


def storm(service: Service, trouble: Callable[[], contextlib.AbstractContextManager[None]], due: int) -> None:
    """Wait until flow number `due` has begun; then make trouble, until it has hit some."""
    eventually(lambda: service.started >= due or service.over, f"flow {due} has begun")
    before = service.hits
    service.calm.clear()
    try:
        with trouble():
            eventually(lambda: service.hits >= before + HIT or service.over, f"trouble at flow {due} hits somebody")
    finally:
        service.calm.set()


@pytest.mark.parametrize("name", TROUBLES)
async def test_users_are_told_the_truth_and_only_what_they_confirmed_is_purged_once(
    name: str, request: pytest.FixtureRequest, no_settings: None, record_property: Callable[[str, object], None]
) -> None:
    on_disk: OnDisk | None = request.getfixturevalue("raft") if name in ("sealed", "killed") else None
    server = Server(on_disk.address, on_disk.token) if on_disk else find_or_start()
    chance = random.Random(f"{SEED} {name}")  # noqa: S311 - it chooses users, not keys
    with Lab(server, **({"token_ttl": 1} if name == "logged_out" else {})) as lab:
        service, flows = Service(lab), list[Flow]()

        async def user() -> None:
            while len(flows) < FLOWS or not service.over:  # as many more as it takes to meet all the trouble
                flows.append(Flow(len(flows), chance.choice(service.codecs), chance.choice(WISHES)))
                # Most of the time they think, so most of them meet trouble when they answer.
                await service.play(flows[-1], think=chance.uniform(0, 0.2))

        async def weather() -> None:
            try:
                for due in range(EVERY // 2, FLOWS, EVERY):
                    await asyncio.to_thread(storm, service, lambda: TROUBLES[name](on_disk or lab), due)
            finally:
                service.over = True

        with logged_reasons(), log_lines("labkit") as logged:
            async with contextlib.AsyncExitStack() as stack:
                for codec, janitor in service.servers.items():
                    service.clients[codec] = await stack.enter_async_context(Client(janitor))
                async with asyncio.TaskGroup() as group:
                    group.create_task(weather())
                    for _ in range(AT_A_TIME):
                        group.create_task(user())
                service.patience(10)  # labkit's own: a machine that is busy is no outage
                told = dict(service.told.most_common())
                unused = await look_back(service, flows)
                assert unused <= logged.count(GONE_UNUSED)
                for number, codec in enumerate(service.codecs, start=len(flows)):
                    fresh = Flow(number, codec, "accept")
                    await service.play(fresh, think=0)
                    assert fresh.last == PURGED, "the same servers serve again"
                    assert len(fresh.told) == 1, fresh
    troubled = sum(flow.troubled for flow in flows)
    assert troubled, "a storm that hits nobody proves nothing"
    print(f"\n{name}: {troubled} of {len(flows)} flows in trouble, {unused} claims gone unused; users were told {told}")
    record_property("proved", ("flows", len(flows)))
    record_property("proved", ("flows in trouble", troubled))
    record_property("proved", ("purges without a confirmation, or twice", 0))


async def look_back(service: Service, flows: list[Flow]) -> int:
    """Every flow has ended as it should, and what has been used, burned or refused stays so, whoever tries again.

    A claim may be gone without a purge only when OpenBao took it and could not say so. The user has been told then that
    this cannot be known; or else, where OpenBao said 500 and then that it is gone, the operator: how many these are.
    """
    unused = 0
    for flow in flows:
        wanted, gone = {"accept": (PURGED, REFUSED), "decline": (REVOKED, TOO_LATE), None: (ASKED, ASKED)}[flow.wish]
        assert flow.last in (wanted, gone), flow
        unused += flow.last == gone != ASKED and not flow.in_doubt
        for key in flow.keys:
            service.bucket.put(key)
        if flow.wish:
            assert await service.call(flow, "accept") == REFUSED, flow
        assert service.bucket.keys(flow.prefix) == flow.keys
        assert [service.bucket.deleted[key] for key in flow.keys] == [flow.purges] * 2
        assert flow.purges == (flow.last == PURGED)
    return unused
