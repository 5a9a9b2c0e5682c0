"""Every defense that the series claims, how to take it away, and the proof that has to notice."""

from __future__ import annotations

from mutants.batches import BATCHES
from mutants.boards import BOARDS
from mutants.claims import CLAIMS
from mutants.envelopes import ENVELOPES
from mutants.ledgers import LEDGERS
from mutants.logins import LOGINS
from mutants.mutant import Mutant
from mutants.proofs import PROOFS
from mutants.purges import PURGES
from mutants.rings import RINGS
from mutants.rotations import ROTATIONS
from mutants.transit_codec import TRANSIT_CODEC

__all__ = ["MUTANTS", "Mutant"]

MUTANTS = [
    *ENVELOPES,
    *TRANSIT_CODEC,
    *BATCHES,
    *CLAIMS,
    *PURGES,
    *LEDGERS,
    *RINGS,
    *ROTATIONS,
    *LOGINS,
    *BOARDS,
    *PROOFS,
]
