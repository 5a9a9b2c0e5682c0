"""The batched Transit codec, the queue in it, and the session that carries its calls."""

from __future__ import annotations

from mutants.mutant import ASYNC_CLIENT, BATCHED, BATCHING, REPLICAS, SESSION, Mutant


def codec(name: str) -> str:
    return _named(name, "test_batched_transit")


def _named(name: str, file: str) -> str:
    return f"tests/{file}.py::test_{name}"


def outages(name: str) -> str:
    return _named(name, "test_batched_outages")


def attacks(name: str) -> str:
    return _named(name, "test_batched_attacks")


def client(name: str) -> str:
    return _named(name, "test_async_client")


def queue(name: str) -> str:
    return _named(name, "test_batching")


def session(name: str) -> str:
    return _named(name, "test_session")


CODEC = [
    Mutant(
        "batch: states travel together",
        BATCHED,
        '{"batch": batch,',
        '{"batch": 1,',
        codec("states_of_concurrent_rounds_travel_together"),
    ),
    Mutant(
        "batch: openbao takes the largest",
        BATCHED,
        "_MOST = 200",
        "_MOST = 2000",
        codec("numbers_that_make_no_sense_are_turned_down"),
    ),
    Mutant(
        "batch: strict before openbao",
        BATCHED,
        "queue.ask(ciphertext_of(token))",
        'queue.ask("vault:v1:" + token.split(":")[-1].translate(str.maketrans("-_", "+/")))',
        codec("what_was_never_minted_does_not_reach_openbao"),
    ),
    Mutant(
        "batch: bound to its purpose",
        BATCHED,
        ', "associated_data": FORMAT}',
        "}",
        codec("its_tokens_are_those_of_the_strict_codec"),
    ),
    Mutant(
        "batch: results of a failed batch count",
        BATCHED,
        "status not in (200, 400)",
        "status not in (200,)",
        codec("one_bad_token_never_hurts_a_neighbor"),
    ),
    Mutant(
        "batch: a bad token is one of its own",
        BATCHED,
        "return InvalidRequestState(reason)\n",
        "raise InvalidRequestState(reason)\n",
        codec("one_bad_token_never_hurts_a_neighbor"),
    ),
    Mutant(
        "batch: a forgery is no outage",
        BATCHED,
        "if reason := refusal(text):",
        "if reason := None:",
        codec("one_bad_token_never_hurts_a_neighbor"),
    ),
    Mutant(
        "batch: an odd result is of one round",
        BATCHED,
        "except (ValueError, TypeError, LookupError, AttributeError) as error:",
        "except ValueError as error:",
        attacks("a_result_that_makes_no_sense_is_of_one_round_only"),
    ),
    Mutant(
        "batch: what is no text is no token",
        BATCHED,
        'token_of(good["ciphertext"])',
        'token_of(str(good["ciphertext"]))',
        attacks("a_result_that_makes_no_sense_is_of_one_round_only"),
    ),
    Mutant(
        "batch: what openbao says is shown short",
        BATCHED,
        "said(hvac.exceptions.InvalidRequest(errors=[text]))",
        "text",
        attacks("what_is_said_of_one_state_is_shown_short"),
    ),
    Mutant(
        "batch: a codec that is not attached does nothing",
        BATCHED,
        '        raise LabError(\n            "BatchedTransit does nothing',
        '        return _Round()\n        raise LabError(\n            "BatchedTransit does nothing',
        codec("without_its_middleware_nothing_is_sealed_and_nothing_opened"),
    ),
    Mutant(
        "batch: attached once",
        BATCHED,
        "if self._around in server.middleware:",
        "if False:",
        codec("it_is_attached_once"),
    ),
    Mutant(
        "batch: attached in front of the boundary",
        BATCHED,
        "[self._around, middleware, self._inside]",
        "[middleware, self._around, self._inside]",
        codec("a_lowlevel_server_is_as_good"),
    ),
    Mutant(
        "batch: no server without a boundary",
        BATCHED,
        '        raise LabError(f"{server.name} has no',
        '        return\n        raise LabError(f"{server.name} has no',
        codec("a_lowlevel_server_is_as_good"),
    ),
    Mutant(
        "batch: a round is no other server's",
        BATCHED,
        "this = self._rounds.pop(task, None)\n",
        "this = self._rounds.get(task)\n",
        codec("a_server_inside_a_tool_has_rounds_of_its_own_or_none"),
    ),
    Mutant(
        "batch: another server leaves the round as it was",
        BATCHED,
        "                self._rounds[task] = this\n\n    def",
        "                self._rounds.setdefault(task, _Round())\n\n    def",
        codec("a_server_inside_a_tool_has_rounds_of_its_own_or_none"),
    ),
    Mutant(
        "batch: nothing is left of a round",
        BATCHED,
        "self._rounds.pop(task, None)\n        return",
        "pass\n        return",
        outages("who_is_cancelled_leaves_the_others_of_the_batch_alone").replace("outages", "attacks"),
    ),
    Mutant(
        "batch: a state is that which was opened",
        BATCHED,
        "if token != self._token:",
        "if False:",
        attacks("with_a_state_exchanged_in_between_nothing_gets_in"),
    ),
    Mutant(
        "batch: what could not be opened gets nowhere",
        BATCHED,
        "            raise self._opened\n",
        '            return b"{}"\n',
        codec("one_bad_token_never_hurts_a_neighbor"),
    ),
    Mutant(
        "batch: the placeholder does not get out",
        BATCHED,
        "if not is_input_required(result) or state != self._place:",
        "if False:",
        attacks("with_anything_put_in_between_nothing_gets_out"),
    ),
    Mutant(
        "batch: what could not be sealed does not get out",
        BATCHED,
        '            raise MCPError(code=INTERNAL_ERROR, message="Internal error") from None\n',
        "            return result\n",
        outages("an_outage_lets_nothing_in_and_is_logged_without_a_secret"),
    ),
    Mutant(
        "batch: an answer that is a model is sealed",
        BATCHED,
        'model_copy(update={"request_state": token})',
        "model_copy()",
        attacks("what_a_middleware_of_the_server_asks_is_sealed_too"),
    ),
    Mutant(
        "batch: full is told before a tool runs",
        BATCHED,
        "if sealing.full:",
        "if False:",
        outages("who_finds_the_queue_full_is_told_so_and_may_come_again"),
    ),
    Mutant(
        "batch: whose tool has run is not turned away",
        BATCHED,
        ", turn_away=False)",
        ")",
        outages("whoever_is_told_to_come_again_has_had_nothing_done_for_them"),
    ),
    Mutant(
        "batch: full is no fault of the token",
        BATCHED,
        "        except Full:\n            raise _busy(context.method) from None\n",
        "",
        outages("who_finds_the_queue_full_is_told_so_and_may_come_again"),
    ),
    Mutant(
        "batch: a call is as large as openbao reads",
        BATCHED,
        "_SIZE = 1_000_000",
        "_SIZE = 400_000_000",
        attacks("forty_forgeries_of_a_megabyte_hold_up_no_honest_round"),
    ),
    Mutant(
        "batch: what no token can hold reaches no batch",
        BATCHED,
        "        check_length(payload)\n",
        "",
        attacks("a_state_that_is_too_long_is_of_one_round_only"),
    ),
    Mutant(
        "batch: the key that was asked for",
        BATCHED,
        "self._client, self._key = client, key",
        "self._client, self._key = client, TRANSIT_KEY",
        codec("the_key_is_that_which_was_asked_for"),
    ),
    Mutant(
        "batch: what seals nothing goes on",
        BATCHED,
        "if context.method not in INPUT_REQUIRED_METHODS:",
        "if False:",
        outages("who_finds_the_queue_full_is_told_so_and_may_come_again"),
    ),
    Mutant(
        "batch: a call that failed brings nothing",
        BATCHED,
        "if status not in (200, 400) or not",
        "if not",
        attacks("results_count_for_nothing_where_the_status_says_that_the_call_failed"),
    ),
    Mutant(
        "batch: a key that is gone is named",
        BATCHED,
        "answers = (hvac.exceptions.InvalidRequest, hvac.exceptions.InvalidPath)",
        "answers = ()",
        outages("a_key_that_is_gone_is_told_by_its_name"),
    ),
    Mutant(
        "batch: each loop has its queues",
        BATCHED,
        "if loop not in self._queues:",
        "if not self._queues:",
        codec("one_event_loop_after_the_other_and_two_at_once_are_served"),
    ),
    Mutant(
        "batch: queues go with their loop",
        BATCHED,
        "self._queues.pop(ended, None)",
        "pass",
        codec("one_event_loop_after_the_other_and_two_at_once_are_served"),
    ),
    Mutant(
        "batch: replicas attach it",
        REPLICAS,
        "        sealing.codec.attach(server)\n",
        "        pass\n",
        "tests/test_front_desk.py::test_replicas_with_the_same_keys_hand_over",
    ),
]
QUEUE = [
    Mutant(
        "batch: beside the loop",
        BATCHED,
        "status, content = await client.post(path, body)",
        "status, content = 200, self._client.adapter.post(path, json=body)",
        codec("the_server_goes_on_while_openbao_works"),
    ),
    Mutant(
        "batch: what is about to come travels along",
        BATCHING,
        "_IDLE = 10",
        "_IDLE = 0",
        queue("what_the_event_loop_is_about_to_bring_travels_along"),
    ),
    Mutant(
        "batch: no more than so many",
        BATCHING,
        "len(batch) == self._batch or ",
        "",
        queue("the_oldest_go_first_and_no_batch_is_larger_than_it_may_be"),
    ),
    Mutant(
        "batch: no more than so much",
        BATCHING,
        " or (before and size > max(before, self._size))",
        "",
        queue("a_batch_has_a_size_too_and_what_is_larger_goes_alone"),
    ),
    Mutant(
        "batch: who comes and goes holds up nobody",
        BATCHING,
        "if len(self._waiting) <= gathered else 0",
        "if len(self._waiting) == gathered else 0",
        queue("who_comes_and_goes_does_not_keep_a_batch_from_leaving"),
    ),
    Mutant(
        "batch: a long state travels even in a crowd",
        BATCHING,
        "(before and size",
        "(batch and size",
        queue("short_ones_overtake_long_ones_and_one_long_one_travels_along"),
    ),
    Mutant(
        "batch: long forgeries hold up no honest round",
        BATCHING,
        "key=lambda each: self._is_long(each) and each[0] is not oldest",
        "key=lambda each: False",
        attacks("forty_forgeries_of_a_megabyte_hold_up_no_honest_round"),
    ),
    Mutant(
        "batch: a crowd keeps no long state for ever",
        BATCHING,
        " and each[0] is not oldest",
        "",
        queue("a_crowd_of_short_ones_that_never_ends_keeps_no_long_one_for_ever"),
    ),
    Mutant(
        "batch: nothing of a user clings to the calls",
        BATCHING,
        ", context=contextvars.Context()",
        "",
        queue("nothing_of_who_comes_first_clings_to_the_calls"),
    ),
    Mutant(
        "batch: a bounded queue",
        BATCHING,
        "if self.full and turn_away:",
        "if False:",
        queue("who_finds_it_full_is_turned_away_and_may_come_again"),
    ),
    Mutant(
        "batch: nobody waits longer than the time-out",
        BATCHING,
        "            answer.set_exception(self._too_late())\n",
        "            pass\n",
        queue("who_waits_longer_than_the_time_out_is_told_so_and_the_queue_works_on"),
    ),
    Mutant(
        "batch: a call that hangs is given up",
        BATCHING,
        "            async with asyncio.timeout(self._timeout):\n                results =",
        "            if True:\n                results =",
        queue("calls_that_hang_on_do_not_keep_the_queue_from_working_when_openbao_is_back"),
    ),
    Mutant(
        "batch: a batch that is complete does not wait",
        BATCHING,
        "            self._enough.set()\n",
        "            pass\n",
        queue("a_batch_waits_for_company_only_until_it_is_complete"),
    ),
    Mutant(
        "batch: who is cancelled leaves the queue",
        BATCHING,
        "            self._waiting.pop(answer, None)\n",
        "            pass\n",
        queue("who_is_cancelled_leaves_the_others_alone"),
    ),
    Mutant(
        "batch: who is cancelled leaves the batch alone",
        BATCHING,
        "if answer.done():",
        "if False:",
        attacks("who_is_cancelled_leaves_the_others_of_the_batch_alone"),
    ),
    Mutant(
        "batch: one result for one item",
        BATCHING,
        "if len(results) != len(batch):",
        "if False:",
        attacks("of_too_few_results_or_too_many_none_is_anybodys"),
    ),
    Mutant(
        "batch: a call that fails is told to everybody",
        BATCHING,
        "except Exception as error:  # whoever waits",
        "except TimeoutError as error:  # whoever waits",
        queue("a_call_that_fails_is_everybodys_error_and_none_waits_on"),
    ),
    Mutant(
        "batch: an outage is logged as one",
        BATCHING,
        'logger.error("requestState',
        'logger.debug("requestState',
        outages("an_outage_lets_nothing_in_and_is_logged_without_a_secret"),
    ),
    Mutant(
        "batch: an error is of one item",
        BATCHING,
        "answer.set_exception(result)",
        "raise result",
        queue("an_error_is_of_one_item"),
    ),
    Mutant(
        "batch: a worker that ended is replaced",
        BATCHING,
        " or self._worker.done():",
        ":",
        queue("a_queue_whose_worker_was_cancelled_gets_another_one"),
    ),
]
SENDING = [
    Mutant(
        "batch: session, cookies are kept",
        SESSION,
        "if answer.cookies:",
        "if False:",
        session("cookies_of_a_balancer_are_sent_back"),
    ),
    Mutant(
        "batch: session, cookies are sent",
        SESSION,
        " or self.cookies",
        "",
        session("cookies_of_a_balancer_are_sent_back"),
    ),
    Mutant(
        "batch: session, proxies and certificates of the environment",
        SESSION,
        "self.merge_environment_settings(url, stream=False, **transport)",
        '{**transport, "verify": self.verify}',
        session("a_proxy_of_the_environment_is_used_only_where_that_is_wanted"),
    ),
    Mutant(
        "batch: session, certificates of the session",
        SESSION,
        '"verify": verify, "cert": cert}',
        '"verify": True, "cert": cert}',
        session("certificates_are_those_of_the_environment_only_where_that_is_wanted"),
    ),
    Mutant(
        "batch: session, the time-out of a call",
        SESSION,
        "send(request, timeout=timeout, **transport)",
        "send(request, **transport)",
        session("a_call_ends_with_its_time_out"),
    ),
    Mutant(
        "batch: session, no server is asked for another",
        SESSION,
        'key = ("/".join(str(request.url).split("/", 3)[:3]), verify, cert)',
        'key = ("", verify, cert)',
        session("each_server_is_asked_itself"),
    ),
    Mutant(
        "batch: session, hooks run",
        SESSION,
        'dispatch_hook("response", self.hooks, answer)',
        "answer",
        session("hooks_see_each_answer_and_may_put_another_in_its_place"),
    ),
    Mutant(
        "batch: session, a body cut short is an error",
        SESSION,
        "raise requests.exceptions.ChunkedEncodingError(error, request=req) from None",
        'answer._content = b"{}"',
        session("a_body_that_is_cut_short_is_an_error_of_the_call"),
    ),
    Mutant(
        "batch: session, a redirect only where it is wanted",
        SESSION,
        '"allow_redirects": allow_redirects}',
        '"allow_redirects": True}',
        session("a_redirect_is_not_followed_unless_it_is_to_be"),
    ),
    Mutant(
        "batch: session, what else there is is sent",
        SESSION,
        " or any(others.values())",
        "",
        session("what_else_there_is_to_a_request_goes_its_usual_way"),
    ),
    Mutant(
        "batch: session, a login is sent",
        SESSION,
        " or self.auth",
        "",
        session("what_else_there_is_to_a_request_goes_its_usual_way"),
    ),
]
CLIENT = [
    Mutant(
        "batch: client, a login that has died is renewed",
        ASYNC_CLIENT,
        "if status != 403:",
        "if True:",
        outages("a_login_that_was_revoked_is_renewed"),
    ),
    Mutant(
        "batch: client, a redirect is not followed",
        ASYNC_CLIENT,
        "allow_redirects=False",
        "allow_redirects=True",
        client("no_redirect_is_followed_because_the_token_would_go_along"),
    ),
    Mutant(
        "batch: client, certificates are checked",
        ASYNC_CLIENT,
        "ssl=self._tls",
        "ssl=False",
        client("a_certificate_is_checked_with_what_the_client_trusts"),
    ),
    Mutant(
        "batch: client, proxies as hvac's",
        ASYNC_CLIENT,
        "proxy=self._proxy",
        "proxy=None",
        client("a_proxy_of_the_environment_is_used_only_for_a_server_that_is_not_ours"),
    ),
    Mutant(
        "batch: client, a proxy without a scheme",
        ASYNC_CLIENT,
        'f"http://{proxy}" if proxy and "://" not in proxy else proxy',
        "proxy",
        client("a_proxy_of_the_environment_is_used_only_for_a_server_that_is_not_ours"),
    ),
    Mutant(
        "batch: client, openbao below a path",
        ASYNC_CLIENT,
        'self._address = address.rstrip("/")',
        'self._address = "/".join(address.split("/")[:3])',
        client("openbao_may_lie_below_a_path"),
    ),
    Mutant(
        "batch: client, its own certificate",
        ASYNC_CLIENT,
        "    if cert:\n",
        "    if False:\n",
        client("who_we_are_is_shown_to_a_server_that_asks"),
    ),
    Mutant(
        "batch: client, logging in holds up nobody",
        ASYNC_CLIENT,
        "await asyncio.to_thread(self._client.adapter.post, path,",
        "self._client.adapter.post(path,",
        client("logging_in_again_holds_up_nobody"),
    ),
    Mutant(
        "batch: client, an error holds no request",
        ASYNC_CLIENT,
        "                failed = type(error).__name__\n                break\n",
        "                raise ConnectionError(type(error).__name__)\n",
        client("a_body_that_is_cut_short_is_no_answer"),
    ),
    Mutant(
        "batch: client, nothing of the first request is kept",
        ASYNC_CLIENT,
        "nobody = contextvars.Context()",
        "nobody = contextvars.copy_context()",
        client("nothing_of_the_request_that_comes_first_is_kept"),
    ),
    Mutant(
        "batch: client, a loop that was closed by hand",
        ASYNC_CLIENT,
        "        _keepers.discard(keeper)\n",
        "        pass\n",
        client("nothing_is_kept_of_an_event_loop_that_was_closed_without_an_end"),
    ),
    Mutant(
        "batch: client, connections end with the loop",
        ASYNC_CLIENT,
        "        await http.close()",
        "        pass",
        client("connections_are_closed_when_the_event_loop_ends"),
    ),
    Mutant(
        "batch: client, connections end with the client",
        ASYNC_CLIENT,
        "loop.call_soon_threadsafe(keeper.cancel)",
        "pass",
        client("connections_are_closed_when_the_client_is_gone"),
    ),
]
BATCHES = [*CODEC, *QUEUE, *SENDING, *CLIENT]
