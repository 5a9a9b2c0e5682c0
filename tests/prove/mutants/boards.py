"""The board tells what was deleted, the log is read by its history, and a label takes no attacker's words."""

from __future__ import annotations

from mutants.mutant import BOARD, JANITOR, Mutant

FORENSICS = "src/labkit/forensics.py"

BOARDS = [
    Mutant(
        "board: what nobody agreed to went through",
        "src/labkit/board.py",
        "harm = victim.bucket.deletions - scene.allowed",
        "harm = victim.bucket.deletions - victim.bucket.deletions",
        BOARD,
    ),
    Mutant(
        "board: a claim is used once",
        JANITOR,
        "        plan = single_use.redeem(claim)\n        keys = _keys(plan, binding)\n    except AlreadyRedeemed:",
        "        plan = {**binding, \"keys\": bucket.keys(binding['arguments']['prefix'])}\n"
        "        keys = _keys(plan, binding)\n    except AlreadyRedeemed:",
        BOARD,
    ),
    Mutant(
        "rejections: the words of a label are ours",
        "src/labkit/rejections.py",
        'reason if reason in REASONS else "other"',
        "reason",
        BOARD,
    ),
    Mutant(
        "rejections: each is counted under its reason",
        "src/labkit/rejections.py",
        "reason = str(record.args[1])",
        'reason = "other"',
        BOARD,
    ),
    Mutant(
        "forensics: a replay is told by its history",
        FORENSICS,
        "if refused.claim in redeemed:",
        "if False:",
        BOARD,
    ),
    Mutant(
        "forensics: what was never issued was guessed",
        FORENSICS,
        'return "guessed" if refused.path == _UNWRAP else None',
        "return None",
        BOARD,
    ),
]
