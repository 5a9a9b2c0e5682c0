"""A purge deletes what was confirmed, by whom it was confirmed, and nothing else."""

from __future__ import annotations

from mutants.mutant import BUCKET, ENVELOPE, JANITOR, ONCE, Mutant

PLANTED = "tests/test_janitor.py::test_a_plan_for_another_request_is_refused"
NO_OBJECTS = "tests/test_bucket.py::test_links_folders_and_foreign_files_are_no_objects"


def _unbound(field: str) -> Mutant:
    old = "        if field not in plan or plan[field] != value:\n"
    new = f'        if field != "{field}" and (field not in plan or plan[field] != value):\n'
    return Mutant(f"plan: bound to the {field}", JANITOR, old, new, ONCE)


PURGES = [
    _unbound("tool"),
    _unbound("arguments"),
    _unbound("principal"),
    Mutant(
        "plan: bound to who calls",
        JANITOR,
        "principal = security.bind_principal(ctx.request_context) if security.bind_principal else None",
        "principal = None",
        ONCE,
    ),
    Mutant(
        "plan: a field that is missing is no match",
        JANITOR,
        "if field not in plan or plan[field] != value:",
        "if plan.get(field) != value:",
        PLANTED,
    ),
    Mutant("plan: keys under the prefix", JANITOR, " and key.startswith(prefix)", "", ONCE),
    Mutant(
        "plan: the yes covers what was listed",
        JANITOR,
        'return _delete(keys, bucket, again="Start over',
        'return _delete(bucket.keys(binding["arguments"]["prefix"]), bucket, again="Start over',
        ONCE,
    ),
    Mutant("janitor: a no burns the claim", JANITOR, "        single_use.burn(claim)\n", "        pass\n", ONCE),
    Mutant(
        "janitor: a late no does not say that nothing was purged",
        JANITOR,
        'return "Declined: this call purged nothing; the confirmation was',
        'return "Declined: nothing was purged; the confirmation was',
        ONCE,
    ),
    Mutant(
        "janitor: a no that is not burned is logged",
        JANITOR,
        'logger.error("a declined',
        'logger.debug("a declined',
        ONCE,
    ),
    Mutant(
        "janitor: an outage is logged",
        JANITOR,
        '-> CallToolResult:\n    logger.error("purge not',
        '-> CallToolResult:\n    logger.debug("purge not',
        ONCE,
    ),
    Mutant(
        "janitor: a no in any form",
        JANITOR,
        'if response.action != "accept":\n        return False',
        'if response.action != "accept":\n        return None',
        "tests/test_janitor.py::test_a_no_in_any_form_burns_the_claim_at_once",
    ),
    Mutant(
        "janitor: only a true is a yes",
        JANITOR,
        "return confirm if isinstance(confirm, bool) else None",
        "return bool(confirm)",
        "tests/test_janitor.py::test_only_a_true_under_confirm_purges",
    ),
    Mutant(
        "janitor: asks again with the same claim",
        JANITOR,
        'still needs a yes or a no.", claim)',
        'still needs a yes or a no.", single_use.issue({**binding, "keys": bucket.keys(prefix)}))',
        ENVELOPE,
    ),
    Mutant(
        "janitor: a foreign state",
        JANITOR,
        'if fields["step"] == "confirm" and isinstance(fields["claim"], str):',
        'if isinstance(fields["claim"], str):',
        "tests/test_janitor.py::test_a_verified_state_of_another_shape_is_refused",
    ),
    Mutant(
        "janitor: no empty prefix",
        JANITOR,
        "    if not prefix:\n",
        "    if False:\n",
        "tests/test_janitor.py::test_an_empty_prefix_is_turned_down_before_anything_is_parked",
    ),
    Mutant(
        "janitor: what others wrote is in quotes",
        JANITOR,
        "plain = _PLAIN.fullmatch(keys[0]) and ",
        "plain = ",
        "tests/test_janitor.py::test_a_key_cannot_forge_the_question",
    ),
    Mutant(
        "janitor: every character is visible",
        JANITOR,
        "quoted = ascii(text)",
        "quoted = repr(text)",
        "tests/test_janitor.py::test_a_key_cannot_forge_the_question",
    ),
    Mutant(
        "bucket: a key is no path",
        BUCKET,
        'quote(key, safe="", ',
        'quote(key, safe="/", ',
        "tests/test_bucket.py::test_a_key_is_a_name_and_not_a_path",
    ),
    Mutant(
        "bucket: a dot is no folder",
        BUCKET,
        'return f"%2E{name[1:]}" if name.startswith(".") else name',
        "return name",
        "tests/test_bucket.py::test_a_key_is_a_name_and_not_a_path",
    ),
    Mutant("bucket: a link is no object", BUCKET, " and not path.is_symlink()", "", NO_OBJECTS),
    Mutant(
        "bucket: nothing is stored through a link",
        BUCKET,
        "        os.replace(fresh.name, path)\n",
        "        os.replace(fresh.name, path.resolve())\n",
        "tests/test_bucket.py::test_storing_over_a_link_does_not_write_through_it",
    ),
    Mutant("bucket: what is no object is not deleted", BUCKET, " or _key(path) is None:", ":", NO_OBJECTS),
]
