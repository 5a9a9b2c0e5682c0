"""What a mutant is, and the names of files that several tables share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A defense removed.

    Attributes:
        defense: what is claimed.
        file: where the defense lies; below `src/mcp/`, in the installed SDK.
        old: what stands there, exactly once.
        new: what stands there when the defense is gone.
        killer: the notebook, or the test, that must fail then.
    """

    defense: str
    file: str
    old: str
    new: str
    killer: str


SDK = "src/mcp/server/request_state.py"
SERVER = "src/mcp/server/mcpserver/server.py"
TRANSIT = "src/labkit/transit.py"
BATCHED = "src/labkit/batched_transit.py"
ASYNC_CLIENT = "src/labkit/async_client.py"
BATCHING = "src/labkit/batching.py"
SESSION = "src/labkit/session.py"
REPLICAS = "src/labkit/replicas.py"
SINGLE_USE = "src/labkit/single_use.py"
JANITOR = "src/labkit/janitor.py"
BUCKET = "src/labkit/bucket.py"
RING = "src/labkit/key_ring.py"
ROTATION = "src/labkit/rotation.py"
TRANSIT_ROTATION = "src/labkit/transit_rotation.py"
LIVE = "src/labkit/live_ring.py"
CLOCK = "src/labkit/clock.py"
LEDGER = "src/labkit/ledger.py"
APPROLE = "src/labkit/approle.py"
OPENBAO = "src/labkit/openbao.py"
ERRORS = "src/labkit/errors.py"
PROVISION = "src/labkit/provision.py"
CHECKS = "src/labkit/checks.py"
POLICIES = "openbao/policies"
SANITIZE = "tests/sanitize.cfg"
EVIDENCE = "tests/evidence.py"
START = "notebooks/00-start-here.ipynb"
ENVELOPE = "notebooks/01-envelope-anatomy.ipynb"
SHARED = "notebooks/02-shared-key-ring.ipynb"
CODEC = "notebooks/03-transit-codec.ipynb"
ONCE = "notebooks/04-single-use.ipynb"
TIMELINE = "notebooks/05-rotation-timeline.ipynb"
CRASH = "notebooks/06-crash-safety.ipynb"
BOARD = "notebooks/07-attack-board.ipynb"
