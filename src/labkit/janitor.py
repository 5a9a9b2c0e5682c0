"""The server under study: one destructive tool, two rounds, and a plan that never leaves OpenBao in between."""

from __future__ import annotations

import json
import logging
import re
import uuid
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    TextContent,
    ToolAnnotations,
)

from labkit.bucket import Bucket
from labkit.errors import OpenBaoUnavailable
from labkit.ledger import InvalidOperation, Ledger, NotPlanned
from labkit.single_use import AlreadyRedeemed, PlanTooLarge, SingleUse, WrongPlan

logger = logging.getLogger(__name__)

NAME = "storage-janitor"
TOOL = "purge_objects"
QUESTION = "confirm_purge"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Delete these objects for good?"}},
    "required": ["confirm"],
}
REFUSALS = {
    "already redeemed": "REFUSED: this confirmation is used up or has expired. Look at what is there, and start over.",
    "wrong plan": "REFUSED: this confirmation was given for another request. Start over.",
    "foreign state": "REFUSED: this confirmation is none of this tool's. Start over.",
}
"""What the tool says when it turns a confirmation down, by reason."""
_SHOWN = 80  # characters of a key or prefix in a sentence
_PLAIN = re.compile(r"[A-Za-z0-9._/+=@-]+")  # a key that cannot be taken for words of ours stands without quotes


def build_janitor(
    security: RequestStateSecurity, single_use: SingleUse, bucket: Bucket, *, ledger: Ledger | None = None
) -> MCPServer:
    """Return the MCP server `storage-janitor` with its one tool, `purge_objects(prefix)`.

    Round 1 scans the bucket, parks the plan behind a single-use claim and asks. Round 2 redeems the claim and deletes
    what the plan lists, nothing else.

    Args:
        security: how `requestState` is sealed; replicas of one service share its keys.
        single_use: where plans are parked.
        bucket: what is purged.
        ledger: where a purge is written down before it begins, so that `recover` can finish it; by default nowhere.

    Source: MCP specification 2026-07-28, "Multi round-trip requests"; SDK documentation, "Multi-round-trip handlers".
    """
    server = MCPServer(NAME, request_state_security=security, log_level="WARNING")

    # Not "async": the SDK runs a plain function off the event loop, and this one waits for OpenBao.
    @server.tool(annotations=ToolAnnotations(destructive_hint=True), structured_output=False)
    def purge_objects(prefix: str, ctx: Context) -> str | CallToolResult | InputRequiredResult:
        """Delete every object whose key starts with a prefix, after the user has confirmed it."""
        principal = security.bind_principal(ctx.request_context) if security.bind_principal else None
        binding = {"tool": TOOL, "arguments": {"prefix": prefix}, "principal": principal}
        if ctx.request_state is None:
            return _ask(prefix, bucket, single_use, ledger, binding)
        claim = _claim(ctx.request_state)
        if claim is None:
            return _failed(REFUSALS["foreign state"])
        match _answer(ctx.input_responses):
            case None:
                # The same claim: asking again must not park a second plan, nor give the first one more time.
                return _question(f"Purge under {_shown(prefix)} still needs a yes or a no.", claim)
            case False:
                return _decline(claim, single_use)
            case True:
                return _purge(claim, bucket, single_use, ledger, binding)

    return server


def recover(ledger: Ledger, bucket: Bucket, *, after: float = 60) -> int:
    """Finish the purges of this bucket that a server has begun and, being gone, does not finish.

    An object that came under the key of a deleted one meanwhile is deleted too: a plan lists keys.

    Args:
        ledger: where they are written down.
        bucket: what is purged.
        after: seconds since they began; a server that is still at work should have done with them by then.

    Returns:
        How many are done now.

    Raises:
        OpenBaoUnavailable: OpenBao is away, or refuses our token. Nothing is lost; call it again.
    """
    done = 0
    ours = {"tool": TOOL, "bucket": bucket.name}
    for operation in ledger.unfinished(after):
        plan = operation.plan
        if any(plan.get(field) != value for field, value in ours.items()):
            continue
        try:
            if isinstance(_delete(_keys(plan, ours), bucket, again=""), str):
                ledger.finish(operation.name, plan)
                done += 1
        except (WrongPlan, NotPlanned, InvalidOperation) as error:
            logger.error("operation %s is not recovered: %s", operation.name, error)
    return done


def _ask(
    prefix: str, bucket: Bucket, single_use: SingleUse, ledger: Ledger | None, binding: dict[str, Any]
) -> str | CallToolResult | InputRequiredResult:
    if not prefix:
        return _failed("An empty prefix would purge the whole bucket: name a prefix, such as 'logs/'.")
    keys = bucket.keys(prefix)
    if not keys:
        return f"Nothing to purge: no object under {_shown(prefix)}."
    plan = {**binding, "keys": keys}
    try:
        if ledger is None:
            claim = single_use.issue(plan)
        else:
            plan |= {"operation": uuid.uuid4().hex, "bucket": bucket.name}
            claim = single_use.issue(plan)
            ledger.plan(plan["operation"], plan)
    except PlanTooLarge:
        return _failed(
            f"{len(keys):,} object(s) under {_shown(prefix)} are too many for one confirmation: use a longer prefix."
        )
    except OpenBaoUnavailable as error:
        return _outage(error)
    return _question(f"Purge {len(keys)} object(s) under {_shown(prefix)}? {_sample(keys)}", claim)


def _question(message: str, claim: str) -> InputRequiredResult:
    params = ElicitRequestFormParams(message=message, requested_schema=_SCHEMA)
    return InputRequiredResult(
        input_requests={QUESTION: ElicitRequest(params=params)},
        request_state=json.dumps({"step": "confirm", "claim": claim}),
    )


def _claim(state: str) -> str | None:
    """The claim in a state that the boundary has verified: ours, but perhaps minted by another version of this tool."""
    try:
        fields = json.loads(state)
        if fields["step"] == "confirm" and isinstance(fields["claim"], str):
            return str(fields["claim"])
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _answer(responses: InputResponses | None) -> bool | None:
    """True for a yes, False for a no in any form, None for anything that is neither."""
    response = (responses or {}).get(QUESTION)
    if not isinstance(response, ElicitResult):
        return None
    if response.action != "accept":
        return False
    confirm = (response.content or {}).get("confirm")
    return confirm if isinstance(confirm, bool) else None


def _decline(claim: str, single_use: SingleUse) -> str:
    try:
        single_use.burn(claim)
    except AlreadyRedeemed:
        return "Declined: this call purged nothing; the confirmation was used up or had expired already."
    except OpenBaoUnavailable as error:
        logger.error("a declined confirmation was not burned: %s", error)
        return (
            "Declined: this call purged nothing. The confirmation could not be revoked and may stay valid for "
            f"up to {single_use.ttl} s. {error}"
        )
    return "Declined: nothing was purged, and the confirmation is revoked."


def _purge(
    claim: str, bucket: Bucket, single_use: SingleUse, ledger: Ledger | None, binding: dict[str, Any]
) -> str | CallToolResult:
    try:
        plan = single_use.redeem(claim)
        keys = _keys(plan, binding)
    except AlreadyRedeemed:
        return _failed(REFUSALS["already redeemed"])
    except WrongPlan as error:
        logger.warning("purge refused: %s", error)
        return _failed(REFUSALS["wrong plan"])
    except OpenBaoUnavailable as error:
        return _outage(error)
    if ledger is None or "operation" not in plan:  # as planned by a replica that keeps no ledger
        return _delete(keys, bucket, again="Start over for the rest.")
    return _execute(plan, keys, bucket, ledger)


def _execute(plan: dict[str, Any], keys: list[str], bucket: Bucket, ledger: Ledger) -> str | CallToolResult:
    """Delete between two entries in the ledger: after the first, somebody will finish."""
    operation = str(plan.get("operation"))
    try:
        ledger.begin(operation, plan)
    except NotPlanned as error:
        logger.warning("purge refused: %s", error)
        return _failed(REFUSALS["already redeemed"])
    except OpenBaoUnavailable as error:
        logger.error("purge not possible: %s", error)
        return _failed(
            "NOT PURGED: nothing was deleted by this call. But it was confirmed, and may "
            "have been written down to be finished later: look at what is there before "
            f"you start over. {error}"
        )
    result = _delete(keys, bucket, again="The rest will be tried again.")
    if isinstance(result, str):
        try:
            ledger.finish(operation, plan)
        except (OpenBaoUnavailable, NotPlanned, InvalidOperation) as error:
            logger.warning("a purge is done, and the ledger does not know it yet: %s", error)
    return result


def _keys(plan: dict[str, Any], binding: dict[str, Any]) -> list[str]:
    """The keys that `plan` lists, if it was made for this very request. A claim proves only that somebody holds it."""
    for field, value in binding.items():
        if field not in plan or plan[field] != value:
            raise WrongPlan(f"the plan is bound to another {field}")
    keys, arguments = plan.get("keys"), plan.get("arguments")
    prefix = arguments.get("prefix") if isinstance(arguments, dict) else None
    if not isinstance(keys, list) or not isinstance(prefix, str) or not prefix:
        raise WrongPlan("the plan lists no keys of a prefix")
    if not all(isinstance(key, str) and key.startswith(prefix) for key in keys):
        raise WrongPlan("the plan lists no keys of this prefix")
    return keys


def _delete(keys: list[str], bucket: Bucket, *, again: str) -> str | CallToolResult:
    purged: list[str] = []
    vanished: list[str] = []
    failed: list[str] = []
    for key in keys:
        try:
            (purged if bucket.delete(key) else vanished).append(key)
        except OSError:
            logger.exception("an object could not be deleted")
            failed.append(key)
    report = f"Purged {len(purged)} object(s)" + (f": {_sample(purged)}" if purged else "")
    if vanished:
        report += f"; {len(vanished)} had vanished since the question: {_sample(vanished)}"
    if failed:
        return _failed(f"{report}; {len(failed)} could not be deleted: {_sample(failed)}. {again}")
    return report


def _outage(error: OpenBaoUnavailable) -> CallToolResult:
    logger.error("purge not possible: %s", error)
    return _failed(f"NOT PURGED: nothing was deleted by this call. {error}")


def _failed(text: str) -> CallToolResult:
    """An error that the model and its user read as it stands; the SDK's `ToolError` would put words in front of it."""
    return CallToolResult(content=[TextContent(text=text)], is_error=True)


def _sample(keys: list[str]) -> str:
    plain = _PLAIN.fullmatch(keys[0]) and len(keys[0]) <= _SHOWN
    return (keys[0] if plain else _shown(keys[0])) + (", …" if len(keys) > 1 else "")


def _shown(text: str) -> str:
    """Text that others chose, made fit for a sentence that a person acts on: quoted, short, every character visible."""
    quoted = ascii(text)
    return quoted if len(quoted) <= _SHOWN else f"{quoted[:_SHOWN]}…'"
