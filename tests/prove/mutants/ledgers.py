"""What was confirmed is finished by somebody, what was not by nobody, and what lies in the ledger bends neither."""

from __future__ import annotations

from mutants.logins import granting
from mutants.mutant import CRASH, JANITOR, LEDGER, POLICIES, Mutant

IN_TURN = "tests/test_ledger.py::test_no_step_is_taken_twice_nor_out_of_turn"
AGE = "tests/test_ledger.py::test_only_what_is_executing_is_unfinished_and_only_after_so_long_by_openbaos_clock"
FORGOTTEN = "tests/test_ledger.py::test_done_and_never_confirmed_is_forgotten_and_what_is_executing_never"
MALFORMED = "tests/test_ledger.py::test_what_is_no_operation_is_logged_without_its_content_and_hides_no_other"
NO_MORE = "tests/test_ledger_access.py::test_the_role_that_writes_the_ledger_may_do_no_more"
SPOILED = "tests/test_recovery.py::test_a_record_that_is_spoiled_deletes_nothing_and_keeps_nobody_else_waiting"
TRIED_AGAIN = "tests/test_recovery.py::test_what_could_not_be_deleted_is_told_and_tried_again_by_recovery"
ELSEWHERE = "tests/test_recovery.py::test_what_was_begun_for_another_tool_or_bucket_is_left_to_its_servers"
AWAY = "tests/test_recovery_outages.py::test_a_right_that_is_taken_away_and_given_back"

CAS = "cas=_STATES[state] - 1, "
BEGIN = "        ledger.begin(operation, plan)\n"
UNPLANNED = f'{BEGIN}    except NotPlanned as error:\n        logger.warning("purge refused: %s", error)\n'
DELETE = '    result = _delete(keys, bucket, again="The rest will be tried again.")\n'
UNFINISHED = 'elif operation.state == "executing" and operation.age >= after:'
FORGET = '{"done": keep, "planned": unconfirmed, "executing": math.inf}'


def _unchecked(state: str, killer: str) -> Mutant:
    new = f'cas=None if state == "{state}" else _STATES[state] - 1, '
    return Mutant(f"ledger: check-and-set before {state}", LEDGER, CAS, new, killer)


LEDGERS = [
    _unchecked("planned", IN_TURN),
    _unchecked("executing", CRASH),
    _unchecked("done", IN_TURN),
    Mutant(
        "ledger: finishing twice is as good as once",
        LEDGER,
        '            if self.read(name).state != "done":\n                raise\n',
        "            raise\n",
        "tests/test_ledger.py::test_finishing_twice_is_as_good_as_once_whoever_does_it",
    ),
    Mutant(
        "ledger: a name is no path",
        LEDGER,
        "if not _NAME.fullmatch(name):",
        "if False:",
        "tests/test_ledger.py::test_a_name_is_no_path_and_openbao_is_not_even_asked",
    ),
    Mutant(
        "ledger: what has no name of ours is none of it",
        LEDGER,
        " if _NAME.fullmatch(name)]",
        "]",
        "tests/test_ledger.py::test_a_name_that_is_none_of_ours_is_passed_over",
    ),
    Mutant(
        "ledger: a state has its version", LEDGER, '_STATES[state] != secret["metadata"]["version"] or ', "", MALFORMED
    ),
    Mutant("ledger: a plan is an object", LEDGER, " or not isinstance(plan, dict):", ":", MALFORMED),
    Mutant(
        "ledger: what is invalid stops no other",
        LEDGER,
        '                logger.error("%s", error)\n',
        "                raise\n",
        MALFORMED,
    ),
    Mutant(
        "ledger: the age by OpenBao's clock",
        LEDGER,
        "asked = now(self._client)",
        'asked = __import__("time").time()',
        AGE,
    ),
    Mutant(
        "ledger: no plan in a repr",
        LEDGER,
        "plan: dict[str, Any] = field(repr=False)\n",
        "plan: dict[str, Any]\n",
        "tests/test_ledger.py::test_an_operation_is_planned_then_executing_then_done",
    ),
    Mutant(
        "ledger: what is executing is not forgotten",
        LEDGER,
        FORGET,
        '{"done": keep, "planned": unconfirmed, "executing": keep}',
        FORGOTTEN,
    ),
    Mutant(
        "ledger: what may be confirmed yet is kept",
        LEDGER,
        FORGET,
        '{"done": keep, "planned": keep, "executing": math.inf}',
        FORGOTTEN,
    ),
    Mutant(
        "recovery: what is only planned is not started",
        LEDGER,
        UNFINISHED,
        "elif operation.age >= after:",
        CRASH,
    ),
    Mutant(
        "recovery: what is done is not done again",
        LEDGER,
        "                self._done.add(operation.name)\n",
        "                yield operation\n",
        CRASH,
    ),
    Mutant(
        "recovery: a server that is at work is left to it",
        LEDGER,
        UNFINISHED,
        'elif operation.state == "executing":',
        "tests/test_recovery.py::test_a_purge_of_a_server_that_is_at_work_is_left_to_it",
    ),
    Mutant(
        "recovery: what is not done is looked at again",
        LEDGER,
        '            if operation.state == "done":\n',
        '            self._done.add(operation.name)\n            if operation.state == "done":\n',
        "tests/test_recovery.py::test_recovery_waits_for_so_long_by_openbaos_clock",
    ),
    Mutant(
        "recovery: only purges",
        JANITOR,
        'ours = {"tool": TOOL, "bucket": bucket.name}',
        'ours = {"bucket": bucket.name}',
        ELSEWHERE,
    ),
    Mutant(
        "recovery: only of its own bucket",
        JANITOR,
        'ours = {"tool": TOOL, "bucket": bucket.name}',
        'ours = {"tool": TOOL}',
        ELSEWHERE,
    ),
    Mutant(
        "recovery: what is no plan of a purge stops no other",
        JANITOR,
        '            logger.error("operation',
        '            raise\n            logger.error("operation',
        SPOILED,
    ),
    Mutant(
        "recovery: what changes meanwhile stops no other",
        JANITOR,
        "except (WrongPlan, NotPlanned, InvalidOperation) as error:",
        "except WrongPlan as error:",
        "tests/test_recovery.py::test_a_record_that_changes_meanwhile_keeps_nobody_else_waiting",
    ),
    Mutant(
        "recovery: what could not be deleted is not done",
        JANITOR,
        'if isinstance(_delete(_keys(plan, ours), bucket, again=""), str):',
        'if _delete(_keys(plan, ours), bucket, again=""):',
        TRIED_AGAIN,
    ),
    Mutant(
        "recovery: a fleet looks after its own",
        "src/labkit/serve.py",
        "if done := recover(ledger, bucket, after=after):",
        "if done := 0:",
        CRASH,
    ),
    Mutant(
        "recovery: a ledger that cannot be written is none to start with",
        "src/labkit/serve.py",
        "            ledger.plan(uuid.uuid4().hex, {})\n",
        "",
        "tests/test_serve.py::test_a_ledger_that_may_be_read_and_not_written_is_one_sentence",
    ),
    Mutant(
        "recovery: goes on after an outage",
        "src/labkit/serve.py",
        "        except Exception as error:  # whatever",
        "        except ZeroDivisionError as error:  # whatever",
        "tests/test_recovery_outages.py::test_a_replica_that_recovers_goes_on_when_openbao_is_back",
    ),
    Mutant(
        "ledgered purge: written down before the question",
        JANITOR,
        '            ledger.plan(plan["operation"], plan)\n',
        "",
        "tests/test_recovery.py::test_a_purge_is_written_down_before_the_question_and_done_after_the_answer",
    ),
    Mutant(
        "ledgered purge: begun before the first delete",
        JANITOR,
        BEGIN,
        f'        _delete(keys, bucket, again="")\n{BEGIN}',
        CRASH,
    ),
    Mutant(
        "ledgered purge: what was not planned is not begun",
        JANITOR,
        f"{UNPLANNED}        return _failed(",
        f"{UNPLANNED}        str(",
        "tests/test_recovery.py::test_a_purge_whose_record_was_forgotten_is_refused",
    ),
    Mutant(
        "ledgered purge: nothing is deleted that could not be begun",
        JANITOR,
        '        return _failed(\n            "NOT PURGED: nothing was deleted by this call. But',
        '        str(\n            "NOT PURGED: nothing was deleted by this call. But',
        AWAY,
    ),
    Mutant(
        "ledgered purge: an outage at its beginning is no reassurance",
        JANITOR,
        ' But it was confirmed, and may "\n'
        '            "have been written down to be finished later: look at what is there before "\n'
        '            f"you start over. {error}"',
        '"\n            f" {error}"',
        AWAY,
    ),
    Mutant(
        "ledgered purge: finished after the last delete",
        JANITOR,
        DELETE,
        f"    ledger.finish(operation, plan)\n{DELETE}",
        CRASH,
    ),
    Mutant(
        "ledgered purge: not done while an object is left",
        JANITOR,
        "    if isinstance(result, str):\n",
        "    if True:\n",
        TRIED_AGAIN,
    ),
    Mutant(
        "ledgered purge: what is done is told, whatever the ledger knows",
        JANITOR,
        "except (OpenBaoUnavailable, NotPlanned, InvalidOperation) as error:",
        "except ZeroDivisionError as error:",
        AWAY,
    ),
    granting("ledger", "secret/data/mcp/request-state-keys", "read", NO_MORE),
    granting("ledger", "secret/destroy/mcp/operations/+", "update", NO_MORE),
    Mutant(
        "role: ledger writes nothing below an operation",
        f"{POLICIES}/ledger.hcl",
        'path "secret/data/mcp/operations/+"',
        'path "secret/data/mcp/operations/*"',
        NO_MORE,
    ),
]
