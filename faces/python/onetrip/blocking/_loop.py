"""An event loop without a thread of its own: whoever waits for an answer runs it meanwhile.

So what is written for asyncio (sockets, TLS, how connections open and end, listeners, COPY) serves
threads as well. Of the threads that wait one is the leader: it runs the loop, and alone waits for
sockets. The others follow: they wait until it says that their call has ended, or that it leaves.

One thread at a time uses the client: it has the turn (``_native.Turn``). The leader gives the turn
away as long as it waits for sockets, a follower as long as it waits for the leader.

A signal's handler may raise between any two instructions of Python. Where the leader waits for
sockets, nothing is lost by that. Anywhere else a part of the work may be, such as bytes that were
read and not handed on; then no connection can be trusted, and all of the client end (``_give_in``).

Who works amid its turn writes that down (``amid``), and strikes it out where it waits or is done.
So whoever takes the turn next sees what was interrupted, also where the end itself was.
"""

from __future__ import annotations

import _thread
import asyncio
import queue
import selectors
import signal
import socket
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from threading import get_ident
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar, Union

from .. import _native
from .._loan import works_for
from ..errors import Error, MisuseError, Outcome, _closed, _make

if TYPE_CHECKING:
    from .._host import Host
    from .._loan import Loan

T = TypeVar("T")
Work = Union["_native.Call[Any]", "asyncio.Task[Any]"]

#: Seconds after which a thread looks first whether connections were closed meanwhile.
STALE = 0.001

#: Seconds after which a follower looks whether there is a leader still.
LEADER_WAIT = 1.0

#: Seconds in which the server is told that a statement was given up.
CANCEL_WAIT = 1.0

#: What a call may raise by itself; all else is taken for what a signal's handler has raised.
EXPECTED = (Error, TypeError, ValueError, RuntimeError, StopAsyncIteration)

#: What is said of connections that have ended so.
STRUCK = "a signal interrupted the client amid its work"

#: What a signal's handler is told that interrupts the thread which runs the loop.
IN_HANDLER = (
    "a signal's handler can't use the client in whose call its thread waits: let it raise, which "
    "ends that call, or let it cancel a Timeout"
)

#: Rounds of a loop in which what has come is read, and what follows from that is done.
ROUNDS = 3

#: Rounds in which tasks hear that all connections have ended, and end with that.
LAST_ROUNDS = 32


class Loop(asyncio.SelectorEventLoop):
    """The loop of one client."""

    def __init__(self) -> None:
        self.turn = _native.Turn()
        self.hosts: weakref.WeakSet[Host] = weakref.WeakSet()
        #: Why it can't be used any more, where a signal has interrupted it.
        self.failure: str | None = None
        #: The thread that works here, or 0 where nothing is lost if a signal's handler raises.
        self.amid = 0
        #: The thread that runs it, or 0.
        self._leader = 0
        #: All that were ever connected, as a transport that was interrupted forgets its own.
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        #: Nothing is left of it.
        self._is_over = False
        self._unwritten: list[Callable[[], None]] = []
        #: Clients leave here what writes their bytes; it is called before this thread waits.
        self.flush_soon = self._unwritten.append
        self._waiting: list[Waiter] = []
        self._is_nudged = self._is_ending = False
        self._struck: BaseException | None = None
        #: What a signal's handler has raised that looks like an error of a call's.
        self.by_handler: BaseException | None = None
        self._outer: asyncio.AbstractEventLoop | None = None
        self._ran = 0.0
        super().__init__(Selector(self))
        self.set_exception_handler(self._told)

    def call(self, method: Callable[..., _native.Call[T]], *args: Any, **kwargs: Any) -> T:
        """What a call is answered by."""
        work, limit = None, _limit.get()
        with self.turn:
            try:
                self._enter()
                self._look(limit, part_of=_loan_of(method))
                work = method(*args, **kwargs)
                if limit is None and not self._leader:
                    self._lead(work.done)
                result: T = self._end_of(work, limit)
                self.amid = 0
                return result
            except BaseException as struck:
                if self._is_own(struck):
                    raise
                self._interrupted(work)
                raise self._own(struck) from None

    def _is_own(self, error: BaseException) -> bool:
        """Whether a call has raised it by itself, and no signal's handler; then its work is done."""
        if not isinstance(error, EXPECTED) or error is self.by_handler or is_of_handler(error):
            return False
        self.amid = 0
        return True

    def act(self, method: Callable[..., T], *args: Any) -> T:
        """Does what waits for nothing."""
        with self.turn:
            return self._acted(lambda: method(*args))

    def run(
        self,
        work: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        part_of: Loan | None = None,
    ) -> T:
        """What a coroutine returns."""
        return self.run_within(_limit.get(), work, *args, part_of=part_of)

    def run_within(
        self,
        limit: Timeout | None,
        work: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        closed: Callable[[], T] | None = None,
        leaves: bool = False,
        part_of: Loan | None = None,
    ) -> T:
        """``closed`` is called in its place where the client was closed, or its connections ended
        with a signal. ``part_of``: the connection of the transaction that it is a part of.
        """
        with self.turn:
            if self._leader == get_ident():
                raise MisuseError(IN_HANDLER)
            if self.amid:
                self._give_in()
            if closed is not None and (self.is_closed() or self.failure is not None):
                return self._of_closed(closed)
            if self.is_closed() and self.failure is None:
                raise _closed()

            task: asyncio.Task[T] | None = None

            def ended() -> T:
                nonlocal task
                self._look(None if leaves else limit, part_of=part_of)
                if self.is_closed():
                    # By this thread, which was the last to lead.
                    if closed is not None:
                        return self._of_closed(closed)
                    raise _closed()
                task = self._task(work, *args)
                result: T = self._end_of(task, limit, part_of)
                return result

            return self._acted(ended, lambda: task)

    def leave(
        self,
        work: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        closed: Callable[[], T] | None = None,
        part_of: Loan | None = None,
    ) -> T:
        """The way out of a block, which is always begun."""
        limit = _limit_to_leave()
        try:
            return self.run_within(
                limit, work, *args, closed=closed, leaves=True, part_of=part_of
            )
        finally:
            if isinstance(limit, Grace):
                limit.spend()

    def _of_closed(self, closed: Callable[[], T]) -> T:
        try:
            return closed()
        except Error as error:
            raise self._told_by(error) from None
        except RuntimeError:
            # It wanted more of a loop that is closed.
            if self.failure is None:
                raise
            raise self.lost("Unknown") from None

    def _acted(
        self, act: Callable[[], T], made: Callable[[], Work | None] = lambda: None
    ) -> T:
        """What it returns. ``made`` says for what it waited."""
        try:
            self._enter()
            result = act()
            self.amid = 0
            return result
        except BaseException as struck:
            if self._is_own(struck):
                raise
            self._interrupted(made())
            raise self._own(struck) from None

    def _own(self, struck: BaseException) -> BaseException:
        """What this thread is told of it: what a handler has raised is the main thread's alone."""
        is_main = threading.current_thread() is threading.main_thread()
        is_anothers = isinstance(struck, KeyboardInterrupt) and not is_main
        return self.lost("Unknown") if is_anothers else struck

    def _enter(self) -> None:
        """In its turn, a thread begins to work."""
        if self._leader == get_ident():
            # It would wait for itself, below on its stack.
            raise MisuseError(IN_HANDLER)
        if self.amid:
            self._give_in()
        self.amid = get_ident()

    def lost(self, outcome: Outcome) -> Error:
        """The error of a call that has ended with all connections."""
        return _make("connection_lost", outcome, self.failure or STRUCK, None)

    def _told_by(self, error: Error) -> Error:
        """What was not sent before all connections ended hears why, and not that it was closed."""
        if self.failure is None or error.code != "closed":
            return error
        told = self.lost(error.outcome)
        # Of which transaction it speaks.
        vars(told).update({name: it for name, it in vars(error).items() if name == "_part_of"})
        return told

    def _task(self, work: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> asyncio.Task[T]:
        """Whichever thread runs it, it is for this one."""
        token = works_for.set(threading.current_thread())
        try:
            task = self.create_task(whole(work(*args)))
            task.add_done_callback(self._task_ended)
            return task
        finally:
            works_for.reset(token)

    def _task_ended(self, task: asyncio.Task[Any]) -> None:
        """What was raised in it belongs to the thread that runs it."""
        if not task.cancelled():
            self.struck(task.exception())

    def wait(self, works: list[_native.Call[Any]], leaves: bool = False) -> None:
        """Until they have ended, whatever becomes of them. Where their time is over, those that are
        left are given up.
        """
        with self.turn:
            limit = _limit_to_leave() if leaves else _limit.get()
            for work in works:
                self._acted(lambda: self._wait(work, limit), lambda: work)
                if work.done():
                    continue
                if self.failure is not None:
                    raise self.lost(outcome_of(work))
                assert limit is not None
                self._acted(lambda: self._give_up_all(works))
                is_sent = any(not work._is_unsent() for work in works)
                raise limit.error("Unknown" if is_sent else "NotSent")

    def _give_up_all(self, works: list[_native.Call[Any]]) -> None:
        for work in works:
            if not work.done():
                work.close()
        if self._leader:
            self.nudge()
        else:
            self._rounds()

    def close_behind(self, timeout: float | None) -> None:
        """Its client was deleted, wherever the collector found it: a thread closes what is left, and
        ends with that. (`threading` has locks that the collector may run under.)
        """
        _thread.start_new_thread(self._close_behind, (list(self.hosts), timeout))

    def _close_behind(self, hosts: list[Host], timeout: float | None) -> None:
        async def close() -> None:
            for host in hosts:
                await host.close(timeout)

        with self.turn:
            if not self.is_closed():
                self._wait(self.create_task(close()), None)
        self.end()

    def end(self) -> None:
        """Nothing is to be run any more."""
        with self.turn:
            self._acted(self._end)

    def _end(self) -> None:
        self._is_ending = True
        if not self._leader and not self.is_closed():
            self._close()

    def _end_of(self, work: Any, limit: Timeout | None, part_of: Loan | None = None) -> Any:
        """Waits for the end of what was made, and perhaps sent, and reads its result."""
        self._wait(work, limit)
        if not work.done():
            if self.failure is not None:
                error = self.lost(outcome_of(work))
            else:
                assert limit is not None
                self._give_up(work, limit)
                result, known = end_of(work)
                if known is None:
                    # It was there all the same, and would be lost.
                    return result
                error = limit.error(known)
            if isinstance(work, _native.Call):
                work._mark(error)
            raise marked(error, part_of)
        return self._read(work)

    def _read(self, work: Any) -> Any:
        if self.failure is None:
            return work.result()
        try:
            return work.result()
        except Error as error:
            raise self._told_by(error) from None
        except BaseException as error:
            if isinstance(error, EXPECTED) and not is_of_handler(error):
                raise
            # It was cut short, or has what another thread was interrupted by.
            raise self.lost("Unknown") from None

    def _interrupted(self, work: Work | None) -> None:
        """A signal's handler has raised."""
        is_safe, self.amid, self.by_handler = not self.amid, get_ident(), None
        try:
            if is_safe and self.failure is None:
                if work is not None:
                    self._give_up(work)
                self.amid = 0
                return
        except BaseException:
            self._give_in()
            raise
        self._give_in()

    def _wait(self, work: Work, limit: Timeout | None) -> None:
        """Until it has ended, or its time is over."""
        timer = None
        # Where the client was closed, what is waited for has ended with it.
        left = None if limit is None or self.is_closed() else limit.left()
        if left is not None:
            timer = self.call_later(left, _nothing)
        try:
            while not work.done() and self.failure is None:
                if self._leader:
                    self._follow(work, limit)
                else:
                    self._lead(work.done, limit)
                if limit is not None and limit.is_over():
                    return
        finally:
            if not self._leader:
                self._hand_on()
            if timer is not None:
                timer.cancel()

    def _hand_on(self) -> None:
        """Another one leads, if there is one."""
        if self._waiting:
            self._waiting.pop().set_result(None)
        elif self._is_ending and not self.is_closed():
            self._close()

    # --- the leader ---

    def _lead(self, is_done: Callable[[], bool], limit: Timeout | None = None) -> None:
        outer = asyncio._get_running_loop()
        try:
            self._outer, self._leader = outer, get_ident()
            asyncio._set_running_loop(self)
            if limit is not None:
                limit.watch(self.nudge)
            while True:
                while self._unwritten:
                    self._unwritten.pop()()
                if is_done():
                    return
                self._run_once()  # type: ignore[attr-defined]
                if self.failure is not None:
                    # What tasks have of a handler was raised where it interrupted.
                    return
                if self._struck is not None:
                    struck = self._struck
                    self._give_in()
                    if threading.current_thread() is not threading.main_thread():
                        # It has come out there.
                        return
                    raise struck
                if limit is not None and limit.is_over():
                    return
        finally:
            self._leader = 0
            asyncio._set_running_loop(outer)
            self._ran = time.monotonic()
            self._hand_on()

    def look(
        self, found: Callable[[], list[T]], limit: Timeout | None, reads: bool = False
    ) -> list[T]:
        """What has come by now; ``reads``: what nobody has read yet as well."""
        with self.turn:
            if self.is_closed() and self.failure is None:
                raise _closed()

            def looked() -> list[T]:
                self._look(limit, reads)
                return found()

            return self._acted(looked)

    def _look(
        self, limit: Timeout | None, reads: bool = False, part_of: Loan | None = None
    ) -> None:
        """Reads what has come since somebody led last, as the end of a connection."""
        if self.failure is not None:
            raise self.lost("NotSent")
        if limit is not None and limit.is_over():
            if part_of is not None:
                part_of.leave_out()
            raise marked(limit.error("NotSent"), part_of)
        if self._leader or self.is_closed():
            return
        if reads or time.monotonic() - self._ran >= STALE:
            self._rounds()

    def _rounds(self) -> None:
        left = iter(range(ROUNDS))

        def is_done() -> bool:
            self.call_soon(_nothing)
            return next(left, None) is None

        self._lead(is_done)

    def _told(self, _: object, context: dict[str, Any]) -> None:
        self.struck(context.get("exception"))

    def struck(self, error: BaseException | None) -> None:
        """What a signal's handler has raised must not be lost, nor what it interrupted go on."""
        if error is None or isinstance(error, (*EXPECTED, OSError)) and not is_of_handler(error):
            return
        self._struck = error

    def _give_in(self) -> None:
        """A signal's handler raised amid the work, of which a part may be lost: no connection can
        be trusted any more. What was interrupted amid this is done again.
        """
        self.failure, self._struck = STRUCK, None
        if self._leader in (self.amid, get_ident()):
            self._leader = 0
        if asyncio._get_running_loop() is self and not self._leader:
            asyncio._set_running_loop(self._outer)
        for host in list(self.hosts):
            with suppress(*EXPECTED, OSError):
                host.core.close_pool(STRUCK)
            with suppress(*EXPECTED, OSError):
                host.cut(STRUCK)
        for waiter in list(self._waiting):
            waiter.set_result(None)
        if not self._leader:
            self._close()
        elif not self._is_over:
            # It waits for sockets, and sees to the rest.
            self.call_soon_threadsafe(_nothing)
        self.amid = 0

    def abandon(self) -> None:
        """Nobody has it."""
        with self.turn:
            self._give_in()

    def wait_for_end(self) -> None:
        """In its turn: until nothing is left of one that was interrupted."""
        while not self._is_over:
            if self._leader:
                self.call_soon_threadsafe(_nothing)
                self._sleep(Waiter(), LEADER_WAIT)
            else:
                self._give_in()

    def _close(self) -> None:
        if self._is_over:
            return
        outer = asyncio._get_running_loop()
        try:
            asyncio._set_running_loop(self)
            with suppress(*EXPECTED, OSError, AttributeError):
                if self.failure is not None:
                    self._settle()
                for task in asyncio.all_tasks(self):
                    task.cancel()
                self._settle()
                self._close_lost()
        finally:
            asyncio._set_running_loop(outer)
        for one in list(self._sockets):
            one.close()
        self._is_over = True
        self.close()

    def _close_lost(self) -> None:
        """A handler has raised in place of the next step of these, which never comes. Elsewhere
        than in this thread's turn, as by the collector, they could not give back what they have.
        """
        for task in asyncio.all_tasks(self):
            work: Any = task.get_coro()
            with suppress(*EXPECTED, asyncio.CancelledError, StopIteration):
                work.throw(asyncio.CancelledError())
                work.close()

    def _settle(self) -> None:
        left = LAST_ROUNDS
        while left:
            self.call_soon(_nothing)
            try:
                self._run_once()  # type: ignore[attr-defined]
            except BaseException:
                # On another thread a task hears in turn of what has interrupted the main one.
                if threading.current_thread() is threading.main_thread():
                    raise
            goes_on = bool(self._ready)  # type: ignore[attr-defined]
            left = min(left - 1, LAST_ROUNDS if goes_on else ROUNDS)

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        self._sockets.add(sock)
        await super().sock_connect(sock, address)

    # --- the followers ---

    def _follow(self, work: Work, limit: Timeout | None) -> None:
        """Waits for the leader."""
        waiter = Waiter()
        try:
            self._waiting.append(waiter)
            if not isinstance(work, _native.Call):
                work.add_done_callback(waiter.set_result)
            elif not work._watch(waiter):
                return
            if limit is not None:
                limit.watch(lambda: waiter.set_result(None))
            self.nudge()
            left = None if limit is None else limit.left()
            self._sleep(waiter, LEADER_WAIT if left is None else min(left, LEADER_WAIT))
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def _sleep(self, waiter: Waiter, seconds: float) -> None:
        """Gives the turn away until it is told, or for this time."""
        if waiter not in self._waiting:
            self._waiting.append(waiter)
        try:
            self.amid = 0
            self.turn.release()
            waiter.get(timeout=seconds)
        except queue.Empty:
            pass
        finally:
            self.turn.acquire()
        self._enter()

    def nudge(self) -> None:
        """There is something to do for the leader. Any thread may say so, in its turn or not."""
        if self._is_nudged or self.is_closed():
            return
        # The leader may come to it at once, so this is first.
        self._is_nudged = True
        try:
            self.call_soon_threadsafe(self._nudged)
        except BaseException:
            self._is_nudged = False
            raise

    def _nudged(self) -> None:
        self._is_nudged = False

    def _give_up(self, work: Work, limit: Timeout | None = None) -> None:
        """Nobody waits for it any more. The server hears of that before the thread goes on; so long
        as that takes, the limit is exceeded.
        """
        if self.is_closed():
            return
        if isinstance(work, _native.Call):
            work.close()
        else:
            # Behind its first step: what leaves a block is begun at least.
            self.call_soon(work.cancel)
            work.add_done_callback(end_of)
        grace = Grace(limit)
        if not self._leader:
            self._rounds()
            if self.is_closed():
                # Another thread has ended the client, and this one was the last to lead.
                return
            timer = self.call_later(grace.left(), _nothing)
            self._lead(lambda: self._is_told(work) or grace.is_over())
            timer.cancel()
        elif isinstance(work, _native.Call):
            self.nudge()
        else:
            # What is known of it is known once the leader has come to it.
            self._wait(work, grace)
        grace.spend()

    def _is_told(self, work: Work) -> bool:
        """Whether a task that was given up has ended, and the server has stopped what it does."""
        if not isinstance(work, _native.Call) and not work.done():
            return False
        return not any(host.cancels or host.core.is_given_up() for host in self.hosts)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, function: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Looks up a name, on a thread that ends with that."""
        future: asyncio.Future[T] = self.create_future()

        def settle(act: Callable[[Any], None], result: object) -> None:
            if not future.done():
                act(result)

        def work() -> None:
            act: Callable[[Any], None]
            result: object
            try:
                act, result = future.set_result, function(*args)
            except OSError as error:
                act, result = future.set_exception, error
            try:
                self.call_soon_threadsafe(settle, act, result)
            except RuntimeError:
                pass  # Nobody waits for it: the loop was closed.

        threading.Thread(target=work, daemon=True).start()
        return future


class Selector(selectors.PollSelector):
    """Gives the turn away as long as it waits. (With epoll a child would share the set.)"""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        loop, waits = self._loop, timeout is None or timeout > 0
        try:
            loop.amid = 0
            if waits:
                loop.turn.release()
            ready = super().select(timeout)
        except EXPECTED as error:
            loop.by_handler = error
            raise
        finally:
            loop.turn.acquire()
        if waits and (loop.amid or loop.failure is not None):
            loop._give_in()
            ready = []
        loop.amid = get_ident()
        return ready


class Waiter:
    """What a follower waits for. Its methods are native: no signal's handler
    runs in them.
    """

    __slots__ = ("get", "set_result")

    def __init__(self) -> None:
        told: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.set_result, self.get = told.put, told.get


class Timeout(_native.Limit):
    """The calls of a block end within a time, or when another thread cancels them."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._is_cancelled = False
        self._outer: Timeout | None = None
        self._wake: Callable[[], object] | None = None
        #: Seconds that are left for what is done beyond it.
        self._grace: float = CANCEL_WAIT

    def cancel(self) -> None:
        """Ends the call that runs in the block, and those that follow. Any thread may do that."""
        self._is_cancelled = True
        if self._wake is not None:
            self._wake()

    def _within(self, outer: Timeout | None) -> Timeout:
        """The same, which ends with another as well."""
        self._outer = outer
        return self

    def watch(self, wake: Callable[[], object]) -> None:
        """This is called when it is cancelled."""
        self._wake = wake
        if self._outer is not None:
            self._outer.watch(wake)

    def left(self) -> float | None:
        outer = None if self._outer is None else self._outer.left()
        if self._deadline is None:
            return outer
        own = max(0.0, self._deadline - time.monotonic())
        return own if outer is None else min(own, outer)

    def is_over(self) -> bool:
        return self._is_cancelled or self.left() == 0 or self._outer_is_over()

    def _outer_is_over(self) -> bool:
        return self._outer is not None and self._outer.is_over()

    def error(self, outcome: Outcome) -> Error:
        if self._is_cancelled:
            return _make("cancelled", outcome, "it was cancelled by another thread", None)
        if self._outer is not None and self._outer_is_over():
            return self._outer.error(outcome)
        what = "its answer was not read" if outcome == "Applied" else "no answer came"
        return _make("timeout", outcome, f"{what} within {self._seconds:g} s", None)


class Grace(Timeout):
    """What there is beyond a limit: to tell the server, and for the ways out of blocks. What they
    take of it is gone.
    """

    def __init__(self, over: Timeout | None) -> None:
        super().__init__(CANCEL_WAIT if over is None else over._grace)
        self._over = over
        self._grace = 0

    def left(self) -> float:
        assert self._deadline is not None
        return max(0.0, self._deadline - time.monotonic())

    def spend(self) -> None:
        if self._over is not None:
            self._over._grace = self.left()

    def error(self, outcome: Outcome) -> Error:
        assert self._over is not None
        return self._over.error(outcome)


def _limit_to_leave() -> Timeout | None:
    limit = _limit.get()
    return Grace(limit) if limit is not None and limit.is_over() else limit


_limit: ContextVar[Timeout | None] = ContextVar("onetrip_blocking_limit", default=None)


def marked(error: Error, part_of: Loan | None) -> Error:
    """The error, which knows the transaction that it is a part of."""
    if part_of is not None:
        error._part_of = (id(part_of.core), part_of.number)  # type: ignore[attr-defined]
    return error


def _loan_of(method: Callable[..., object]) -> Loan | None:
    """The connection that a call's caller has, whose transaction it is a part of where one is open
    there.
    """
    return getattr(getattr(method, "__self__", None), "_loan", None)


def outcome_of(work: Any) -> Outcome:
    """What is known of what was given up."""
    return end_of(work)[1] or "Applied"


def end_of(work: Any) -> tuple[Any, Outcome | None]:
    """The result of what was given up, where it has come all the same; else what is known of it."""
    if not work.done():
        return None, "Unknown"
    try:
        return work.result(), None
    except Error as error:
        return None, error.outcome
    except (asyncio.CancelledError, Exception):
        return None, "Unknown"


async def whole(work: Coroutine[Any, Any, T]) -> T:
    """Who gives it up hears what is known of it as a whole."""
    try:
        return await work
    except asyncio.CancelledError as error:
        known: Outcome = getattr(error, "_outcome", "Unknown")
        raise _make("cancelled", known, "it was given up before it had ended", None) from None


def is_main_threads(error: BaseException) -> bool:
    """Whether a signal's handler has raised it in what the main thread runs for another one."""
    thread = threading.current_thread()
    is_anothers = works_for.get() not in (None, thread)
    return is_anothers and thread is threading.main_thread() and is_of_handler(error)


def is_of_handler(error: BaseException) -> bool:
    """Whether a signal's handler has raised it, amid what raises it on."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {_code_of(handler) for handler in handlers if callable(handler)} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    handler = getattr(handler, "func", handler)
    handler = getattr(handler, "__func__", handler)
    code: CodeType | None = getattr(handler, "__code__", None)
    return code or getattr(getattr(type(handler), "__call__", None), "__code__", None)


def _nothing(*_: object) -> None:
    """Its call wakes a loop."""
