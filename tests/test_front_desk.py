"""The front desk tells how a round went from one server to another."""

from __future__ import annotations

import pytest
from mcp.server.request_state import RequestStateSecurity

from labkit import replicas
from labkit.front_desk import front_desk, hand_over
from labkit.lab import Lab

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("codec", replicas.ROLES)
async def test_replicas_with_the_same_keys_hand_over(lab: Lab, codec: str) -> None:
    first, second = (front_desk(replicas.security(codec, lab.client(replicas.ROLES[codec]))) for _ in "12")
    assert await hand_over(first, second) == "completed"


async def test_others_do_not_and_the_reason_is_told() -> None:
    ring = [b"k" * 32]
    assert await hand_over(front_desk(ring), front_desk([b"l" * 32])) == "refused: unknown key"
    assert await hand_over(front_desk(ring), front_desk(ring, "back-office")) == "refused: audience"


async def test_a_server_that_cannot_seal_has_asked_nothing(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    mute = RequestStateSecurity(codec=replicas.TransitCodec(lab.bearer("s.none")))
    assert await hand_over(front_desk(mute), front_desk(mute)) == "not asked"
    assert capsys.readouterr() == ("", ""), "nothing of it is on the screen"
