"""Gather what concurrent tasks ask for into few calls, and let the event loop go on meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from labkit.errors import OpenBaoUnavailable

logger = logging.getLogger(__name__)

Item = TypeVar("Item", str, bytes)
Result = TypeVar("Result")

_IDLE = 10  # turns of the event loop; with nothing else to do, they take less than a tenth of a millisecond


class Full(Exception):
    """So many items wait already that one more is turned away."""


class BatchQueue(Generic[Item, Result]):
    """Items that wait for one call at a time; while it is out, the next batch gathers.

    A call goes as soon as the event loop has nothing better to do. So a single item does not wait for company, and the
    busier it is, the larger the batches are. Belongs to one event loop.
    """

    def __init__(
        self,
        call: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]],
        doing: str,
        *,
        batch: int,
        wait: float,
        room: int,
        timeout: float,
        size: int,
    ) -> None:
        """Make an empty queue.

        Args:
            call: does the work for one batch; returns a result or an error for each item, in their order. What it
                raises is every item's error.
            doing: what it does, for the sentence: "OpenBao did not answer within 5 s while <doing>".
            batch: items in a call, at most.
            wait: seconds that a batch waits for more items before it goes; with 0, none but what is on its
                way already.
            room: items that may wait.
            timeout: seconds until an item is given up, waiting included.
            size: characters or bytes in a call, at most, or else one long item and some short ones.
        """
        self._call: Callable[[list[Item]], Awaitable[Sequence[Result | Exception]]] = call
        self._doing = doing
        self._batch, self._wait, self._room, self._timeout, self._size = batch, wait, room, timeout, size
        self._waiting: dict[asyncio.Future[Result], Item] = {}
        self._enough = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Whether one more item would be turned away."""
        return len(self._waiting) >= self._room

    async def ask(self, item: Item, *, turn_away: bool = True) -> Result:
        """Return what the call makes of `item`, which travels with whatever else is waiting.

        Whoever is cancelled while waiting leaves the others of the batch alone.

        Args:
            item: what is asked about.
            turn_away: whether `Full` is an answer; without it, the item waits although there is no room.

        Raises:
            Full: the queue has no room.
            OpenBaoUnavailable: there was no answer in time.
            Exception: what the call says of this item, or raises.
        """
        if self.full and turn_away:
            raise Full
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        self._waiting[answer] = item
        if len(self._waiting) >= self._batch:
            self._enough.set()
        if self._worker is None or self._worker.done():
            # It works for all, so nothing of who happens to come first (a user, a trace) may cling to it.
            self._worker = loop.create_task(self._work(), context=contextvars.Context())
        alarm = loop.call_later(self._timeout, self._give_up, answer)
        try:
            return await answer
        finally:
            alarm.cancel()
            self._waiting.pop(answer, None)

    def _give_up(self, answer: asyncio.Future[Result]) -> None:
        if not answer.done():
            answer.set_exception(self._too_late())

    async def _work(self) -> None:
        while self._waiting:
            if self._wait and len(self._waiting) < self._batch:
                self._enough.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._enough.wait(), self._wait)
            await self._gather()
            if batch := self._take():
                await self._carry_out(batch)

    async def _gather(self) -> None:
        """Let the event loop turn until some turns in a row bring no item more."""
        gathered, idle = 0, 0
        while idle < _IDLE and len(self._waiting) < self._batch:
            idle = idle + 1 if len(self._waiting) <= gathered else 0
            gathered = max(gathered, len(self._waiting))  # who comes and goes holds up nobody
            await asyncio.sleep(0)

    def _take(self) -> dict[asyncio.Future[Result], Item]:
        """The oldest items, as many as a call may have; but of the long ones, only the oldest waits its turn in line.

        An item is short if a whole batch of its like fits into a call. A long one takes OpenBao as much time as
        hundreds of them, and may be a forgery of which somebody sends many. So the others go behind all short ones;
        the oldest does not, or a crowd of short ones would keep it until it is too late.
        """
        oldest = next((answer for answer, item in self._waiting.items() if self._is_long((answer, item))), None)
        batch: dict[asyncio.Future[Result], Item] = {}
        size = 0  # of the long ones
        for answer, item in sorted(
            self._waiting.items(), key=lambda each: self._is_long(each) and each[0] is not oldest
        ):
            before, size = size, size + len(item) * self._is_long((answer, item))
            if len(batch) == self._batch or (before and size > max(before, self._size)):
                break
            batch[answer] = item
        for answer in batch:
            del self._waiting[answer]
        return batch

    def _is_long(self, waiting: tuple[asyncio.Future[Result], Item]) -> bool:
        return len(waiting[1]) * self._batch > self._size

    async def _carry_out(self, batch: dict[asyncio.Future[Result], Item]) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                results = await self._call(list(batch.values()))
            if len(results) != len(batch):
                raise ValueError(f"{len(results)} results for {len(batch)} items")
        except Exception as error:  # whoever waits must hear of it, whatever it is
            failed = self._too_late() if isinstance(error, TimeoutError) else error
            logger.error("requestState outage, not an attack: %s", failed)
            results = [copy.copy(failed) for _ in batch]  # each is raised in a task of its own
        for answer, result in zip(batch, results, strict=True):
            if answer.done():  # its task was cancelled, or gave up
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

    def _too_late(self) -> OpenBaoUnavailable:
        return OpenBaoUnavailable(
            f"OpenBao did not answer within {self._timeout:g} s while {self._doing}: look at `bao status`."
        )
