"""Whatever happens to OpenBao, BatchedTransit answers in time, and lets nothing in that is not genuine."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

import pytest
from batched_desk import ASKED, DONE, NOT_SEALED, REFUSED, Desk, asked_by, forged
from mcp import Client
from taking_away import delete_the_key, delete_the_role, kill, seal_the_server
from waiting import stopped

from labkit.attacks import verdict
from labkit.batched_transit import BUSY
from labkit.checks import log_lines, logged_reasons
from labkit.front_desk import NOTES, booking
from labkit.lab import Lab
from labkit.provision import TRANSIT_KEY
from labkit.transit import TransitCodec

pytestmark = pytest.mark.anyio
TOLD_BUSY = f"error -32603: {BUSY}"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("sealing", [True, False])
async def test_who_finds_the_queue_full_is_told_so_and_may_come_again(own_lab: Lab, sealing: bool) -> None:
    desk = Desk(own_lab.client("transit"), batch=1, room=1, timeout=20)
    state = None if sealing else await asked_by(desk)
    async with Client(desk.server) as client:
        with stopped(own_lab), log_lines("labkit") as logged:
            rounds = [asyncio.create_task(verdict(booking(client)(state)))]
            await desk.waiting(0, sealing)
            rounds.append(asyncio.create_task(verdict(booking(client)(state))))
            await desk.waiting(1, sealing)
            ran = desk.ran
            assert await verdict(booking(client)(state)) == TOLD_BUSY
            assert desk.ran == ran, "no tool ran"
            assert await client.session.list_tools(), "and what seals nothing goes on"
        assert logged == ["tools/call refused: OpenBao cannot follow, and the queue of requestStates is full"]
        wanted = ASKED if sealing else DONE
        assert all(wanted in told for told in await asyncio.gather(*rounds))
        assert wanted in await verdict(booking(client)(state)), "the very same call succeeds later"


async def test_whoever_is_told_to_come_again_has_had_nothing_done_for_them(lab: Lab) -> None:
    """Fifty come at once where one may wait: a tool that has run may have used up a claim."""
    desk = Desk(lab.client("transit"), batch=1, room=1, timeout=20)
    async with Client(desk.server) as client:
        told = await asyncio.gather(*(verdict(booking(client)()) for _ in range(50)))
        assert set(told) <= {ASKED, TOLD_BUSY}
        assert desk.ran == told.count(ASKED)


async def test_a_slow_openbao_holds_no_round_longer_than_the_time_out(own_lab: Lab) -> None:
    desk = Desk(own_lab.client("transit"), batch=2, timeout=1)
    state = await asked_by(desk)
    async with Client(desk.server) as client:
        with stopped(own_lab), log_lines("labkit") as logged, logged_reasons() as reasons:
            for _ in range(6):  # more often than the queue has threads
                async with asyncio.timeout(20):
                    rounds = [verdict(booking(client)(given)) for given in (state, None) * 3]
                    assert await asyncio.gather(*rounds) == [REFUSED, NOT_SEALED] * 3
            assert set(reasons) == {"codec error"}
        late = "OpenBao did not answer within 1 s while {} with the Transit key " + TRANSIT_KEY
        for doing in ("sealing", "unsealing"):
            assert any(late.format(doing) in line and "not an attack" in line for line in logged)
        assert DONE in await verdict(booking(client)(state)), "and when it is back, so are we"
        assert ASKED in await verdict(booking(client)())


@pytest.mark.parametrize("outage", [kill, seal_the_server, delete_the_role, delete_the_key])
async def test_an_outage_lets_nothing_in_and_is_logged_without_a_secret(
    own_lab: Lab, outage: Callable[[Lab], None], caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(own_lab.client("transit"))
    state = await asked_by(desk)
    payload = TransitCodec(desk.openbao).unseal(state)
    outage(own_lab)
    async with Client(desk.server) as client:
        assert await verdict(booking(client)(state)) == REFUSED
        assert await verdict(booking(client)(forged(state))) == REFUSED
        assert await verdict(booking(client)()) == NOT_SEALED
    assert caplog.text.count("requestState outage, not an attack: OpenBao ") == 3
    shown = caplog.text + repr(desk.codec) + repr(vars(desk.codec))
    assert NOTES not in shown
    assert str(desk.openbao.token) not in shown
    for text in (state, payload.decode(), base64.b64encode(payload).decode()):
        assert not any(text[at : at + 12] in shown for at in range(9, len(text) - 12))


async def test_a_key_that_is_gone_is_told_by_its_name(own_lab: Lab) -> None:
    desk = Desk(own_lab.client("transit"))
    state = await asked_by(desk)
    delete_the_key(own_lab)
    async with Client(desk.server) as client:
        with log_lines("labkit") as logged:
            assert await verdict(booking(client)(state)) == REFUSED
    assert f"OpenBao cannot use the Transit key {TRANSIT_KEY} (" in logged[0]


async def test_a_login_that_was_revoked_is_renewed(lab: Lab) -> None:
    desk = Desk(lab.client("transit"), batch=4, wait=4)
    state = await asked_by(Desk(lab.client("transit")))
    async with Client(desk.server) as client:
        for _ in range(2):
            lab.admin.auth.token.revoke(desk.openbao.token)
            assert await asyncio.gather(*(verdict(booking(client)()) for _ in range(4))) == [ASKED] * 4
            lab.admin.auth.token.revoke(desk.openbao.token)
            told = await asyncio.gather(*(verdict(booking(client)(state)) for _ in range(4)))
            assert all(DONE in each for each in told)


async def test_a_retired_key_version_is_refused_and_its_neighbor_is_not(own_lab: Lab) -> None:
    desk, before = (Desk(own_lab.client("transit"), **given) for given in ({"batch": 2, "wait": 4}, {}))
    old = await asked_by(before)
    own_lab.admin.secrets.transit.rotate_key(TRANSIT_KEY)
    own_lab.admin.secrets.transit.update_key_configuration(TRANSIT_KEY, min_decryption_version=2)
    new = await asked_by(before)
    async with Client(desk.server) as client:
        with logged_reasons() as reasons:
            told = await asyncio.gather(*(verdict(booking(client)(state)) for state in (old, new)))
    assert told[0] == REFUSED
    assert DONE in told[1]
    assert reasons == ["unknown key"]
