"""The queue gathers what waits into one call at a time, and each who waits gets its own answer, or is told in time."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from waiting import eventually

from labkit.batching import BatchQueue, Full
from labkit.errors import OpenBaoUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Work:
    """What the queue calls: it turns letters into capitals, and can be held up.

    Attributes:
        batches: what it was given, call by call.
    """

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self._go = asyncio.Event()
        self._go.set()

    async def __call__(self, items: list[str]) -> list[str | Exception]:
        self.batches.append(items)
        await self._go.wait()
        return [ValueError(item) if item.startswith("bad") else item.upper() for item in items]

    @contextmanager
    def held(self) -> Iterator[None]:
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()


def queue_of(call: Callable[[list[str]], Any], **options: Any) -> BatchQueue[str, str]:
    return BatchQueue(call, "working", **{"batch": 64, "wait": 0, "room": 100, "timeout": 30, "size": 1000, **options})


def always(results: Any) -> Callable[[list[str]], Any]:
    async def call(_: list[str]) -> Any:
        return results

    return call


async def begun(work: Work, calls: int = 1) -> None:
    await asyncio.to_thread(eventually, lambda: len(work.batches) == calls, f"call {calls} has begun")


async def asking(queue: BatchQueue[str, str], items: list[str]) -> list[asyncio.Task[str]]:
    """Tasks that wait, in this order."""
    tasks = [asyncio.create_task(queue.ask(item)) for item in items]
    await asyncio.sleep(0)  # each has come as far as it can
    return tasks


async def test_what_comes_during_a_call_travels_in_the_next_one_and_each_gets_its_own_answer() -> None:
    work = Work()
    queue = queue_of(work)
    with work.held():
        tasks = await asking(queue, ["first"])
        await begun(work)
        tasks += await asking(queue, list("abcde"))
        assert len(work.batches) == 1, "one call at a time"
    assert await asyncio.gather(*tasks) == ["FIRST", *"ABCDE"]
    assert work.batches == [["first"], list("abcde")]


async def test_the_oldest_go_first_and_no_batch_is_larger_than_it_may_be() -> None:
    work = Work()
    queue = queue_of(work, batch=2)
    with work.held():
        tasks = await asking(queue, ["first"])
        await begun(work)
        tasks += await asking(queue, list("abcde"))
    await asyncio.gather(*tasks)
    assert work.batches == [["first"], ["a", "b"], ["c", "d"], ["e"]]


async def test_a_batch_has_a_size_too_and_what_is_larger_goes_alone() -> None:
    work = Work()
    queue = queue_of(work, size=10)
    with work.held():
        tasks = await asking(queue, ["first"])
        await begun(work)
        tasks += await asking(queue, ["aaaa", "bbbbbb", "c", "d" * 50, "e", "f"])
    await asyncio.gather(*tasks)
    assert work.batches[1:] == [["aaaa", "bbbbbb"], ["c"], ["d" * 50], ["e", "f"]]


async def test_short_ones_overtake_long_ones_and_one_long_one_travels_along() -> None:
    """Whoever sends many long forgeries holds up no honest round, nor does the crowd keep a long state for ever."""
    work = Work()
    queue = queue_of(work, batch=4, size=12)
    with work.held():
        tasks = await asking(queue, ["first"])
        await begun(work)
        tasks += await asking(queue, ["long 1", "long 2", "very long 3!!", "a", "b", "c"])
    assert (await asyncio.gather(*tasks))[1:3] == ["LONG 1", "LONG 2"], "each its own"
    assert work.batches[1:] == [["long 1", "a", "b", "c"], ["long 2"], ["very long 3!!"]]
    with work.held():
        tasks = await asking(queue, ["first"])
        await begun(work, 5)
        tasks += await asking(queue, ["d", "very long 4!!", "e"])
    await asyncio.gather(*tasks)
    assert work.batches[5:] == [["d", "very long 4!!", "e"]]


async def test_a_crowd_of_short_ones_that_never_ends_keeps_no_long_one_for_ever() -> None:
    """Twice as many users as a batch has items are enough for that: while a call is out, a whole batch gathers."""

    async def call(items: list[str]) -> list[str]:
        await asyncio.sleep(0.001)
        return items

    queue = queue_of(call, batch=4, size=12, timeout=5)

    async def user() -> None:
        while True:
            await queue.ask("a")

    crowd = [asyncio.create_task(user()) for _ in range(12)]
    try:
        for _ in range(3):
            assert await queue.ask("long 1") == "long 1"
    finally:
        for each in crowd:
            each.cancel()


async def test_nothing_of_who_comes_first_clings_to_the_calls() -> None:
    """They are made for all: neither the log nor a trace may tell them as those of one user."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    seen: list[str] = []

    async def call(items: list[str]) -> list[str]:
        seen.append(user.get())
        return items

    user.set("ann")
    assert await queue_of(call).ask("a") == "a"
    assert seen == ["nobody"]


async def test_a_batch_waits_for_company_only_until_it_is_complete() -> None:
    work = Work()
    queue = queue_of(work, batch=3, wait=20)
    async with asyncio.timeout(15):
        assert await asyncio.gather(*(queue.ask(each) for each in "abc")) == list("ABC")
        first = asyncio.create_task(queue.ask("d"))
        await asyncio.sleep(0.05)
        assert await asyncio.gather(first, queue.ask("e"), queue.ask("f")) == list("DEF")
    assert work.batches == [list("abc"), list("def")]


async def test_a_batch_that_stays_incomplete_goes_when_it_has_waited() -> None:
    work = Work()
    assert await asyncio.gather(*(queue_of(work, wait=0.05).ask(each) for each in "a")) == ["A"]


async def test_an_error_is_of_one_item() -> None:
    work = Work()
    told = await asyncio.gather(*map(queue_of(work).ask, ["a", "bad", "c"]), return_exceptions=True)
    assert told[::2] == ["A", "C"]
    assert isinstance(told[1], ValueError)


@pytest.mark.parametrize("results", [[], ["A"], ["A", "B", "C"], None])
async def test_a_call_that_fails_is_everybodys_error_and_none_waits_on(results: Any) -> None:
    told = await asyncio.gather(*map(queue_of(always(results)).ask, "ab"), return_exceptions=True)
    assert [type(each) for each in told] == [TypeError if results is None else ValueError] * 2
    assert told[0] is not told[1], "each is raised in a task of its own"


async def test_who_finds_it_full_is_turned_away_and_may_come_again() -> None:
    work = Work()
    queue = queue_of(work, room=2)
    with work.held():
        tasks = await asking(queue, ["first"])
        await begun(work)
        tasks += await asking(queue, ["a", "b"])
        assert queue.full
        with pytest.raises(Full):
            await queue.ask("c")
        tasks.append(asyncio.create_task(queue.ask("d", turn_away=False)))
    assert await asyncio.gather(*tasks) == ["FIRST", "A", "B", "D"]
    assert not queue.full
    assert await queue.ask("c") == "C"


async def test_who_waits_longer_than_the_time_out_is_told_so_and_the_queue_works_on() -> None:
    work = Work()
    queue = queue_of(work, batch=1, timeout=0.5)
    with work.held():
        for _ in range(2):
            async with asyncio.timeout(10):  # one after the other, forty time-outs would take twenty seconds
                told = await asyncio.gather(*map(queue.ask, "abcd" * 10), return_exceptions=True)
            assert {str(each) for each in told} == {
                "OpenBao did not answer within 0.5 s while working: look at `bao status`."
            }
            assert {type(each) for each in told} == {OpenBaoUnavailable}
    assert await queue.ask("d") == "D"
    assert not queue._waiting


async def test_calls_that_hang_on_do_not_keep_the_queue_from_working_when_openbao_is_back() -> None:
    """A proxy may keep a connection busy for ever, a byte at a time."""
    hanging = [asyncio.Event() for _ in range(3)]

    async def hangs(items: list[str]) -> list[str]:
        if hanging:
            await hanging.pop().wait()
        return items

    queue = queue_of(hangs, timeout=0.2)
    for _ in range(3):
        with pytest.raises(OpenBaoUnavailable):
            await queue.ask("a")
    assert await queue.ask("b") == "b"


async def test_what_the_event_loop_is_about_to_bring_travels_along() -> None:
    work = Work()
    queue = queue_of(work)

    async def ask(item: str, turns: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await queue.ask(item)

    assert await asyncio.gather(*(ask(item, 3 * number) for number, item in enumerate("abcde"))) == list("ABCDE")
    assert work.batches == [list("abcde")]


async def test_who_comes_and_goes_does_not_keep_a_batch_from_leaving() -> None:
    queue = queue_of(Work())

    async def come_and_go() -> None:
        while True:
            task = asyncio.create_task(queue.ask("gone"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    restless = asyncio.create_task(come_and_go())
    try:
        async with asyncio.timeout(10):
            assert await queue.ask("a") == "A"
    finally:
        restless.cancel()


async def test_who_is_cancelled_leaves_the_others_alone() -> None:
    work = Work()
    queue = queue_of(work)
    with work.held():
        tasks = await asking(queue, ["on its way"])
        await begun(work)
        tasks += await asking(queue, ["waits", "stays"])
        for each in tasks[:2]:
            each.cancel()
        await asyncio.wait(tasks[:2])
    assert await tasks[2] == "STAYS"
    assert work.batches == [["on its way"], ["stays"]], "what nobody waits for is not asked"


async def test_a_queue_whose_worker_was_cancelled_gets_another_one() -> None:
    work = Work()
    queue = queue_of(work, timeout=0.5)
    with work.held():
        tasks = await asking(queue, ["a"])
        await begun(work)
        assert queue._worker is not None
        queue._worker.cancel()
        with pytest.raises(OpenBaoUnavailable):
            await tasks[0]
    assert await queue.ask("b") == "B"


def test_no_queue_outlives_its_event_loop() -> None:
    queues: list[weakref.ref[Any]] = []

    async def use() -> None:
        queue = queue_of(Work())
        assert await queue.ask("a") == "A"
        queues.append(weakref.ref(queue))

    for _ in range(5):
        asyncio.run(use())
    gc.collect()
    assert [each() for each in queues] == [None] * 5
