"""What PostgreSQL and Redis have in common: blocks, and what is iterated over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from .._flow import Stream as Flow
from ..errors import CancelledError, Error, MisuseError, TimeoutError
from ._loop import Loop, Timeout, _limit, marked, outcome_of

if TYPE_CHECKING:
    from .._loan import Loan

T = TypeVar("T")
B = TypeVar("B", bound="Owner")


class Owner:
    """A client: its loop, and what is used there."""

    _now: tuple[Loop, Any]

    def __init__(self, made: Callable[[], Any]) -> None:
        self._made = made
        self._begin()

    def _begin(self) -> None:
        async def made() -> Any:
            return self._made()

        loop = Loop()
        try:
            self._now = loop, loop.run_within(None, made)
        except BaseException:
            loop.abandon()
            raise

    def _at(self) -> tuple[Loop, Any]:
        loop = self._now[0]
        if loop.failure is not None:
            # One thread begins anew, once nothing is left of what was.
            with loop.turn:
                loop.wait_for_end()
                if self._now[0] is loop:
                    self._begin()
        return self._now

    @property
    def _loop(self) -> Loop:
        return self._at()[0]

    @property
    def _it(self) -> Any:
        return self._at()[1]

    def _checked(self: B, check: Callable[[], Any]) -> B:
        """A server that can't be reached is told of when the client is opened."""
        try:
            self._at()[0].run(check)
        except BaseException:
            self.close(0)
            raise
        return self

    def close(self, timeout: float | None = None) -> None:
        """Takes nothing new, and ends when all is answered, or after this many seconds."""
        while not (at := self._at())[0].is_closed():
            loop, it = at
            try:
                loop.run_within(None, it.close, timeout)
            except Error:
                # Another thread was interrupted, which has ended these connections.
                if loop.failure is None:
                    raise
            finally:
                loop.end()

    def __enter__(self: B) -> B:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Entered(Protocol):
    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, *error: Any) -> Any: ...


class Block(Generic[T]):
    """For a ``with``. It may be entered again, when it has ended."""

    def __init__(
        self,
        loop: Loop,
        made: Callable[[], Entered],
        given: Callable[[Any], T],
        part_of: Loan | None = None,
    ) -> None:
        self._loop, self._made, self._given, self._part_of = loop, made, given, part_of
        self._block: Any = None
        self._is_entered = False

    def __enter__(self) -> T:
        try:
            given = self._given(self._loop.run(self._enter, part_of=self._part_of))
            limit = _limit.get()
            if limit is not None and limit.is_over():
                raise limit.error("NotSent")
            return given
        except BaseException as error:
            if isinstance(error, (TimeoutError, CancelledError)):
                # It may have been entered meanwhile, of which nothing is left.
                error.outcome = "NotSent"
            # A signal's handler may raise when the block was entered already.
            if self._is_entered and self._loop.failure is None:
                self.__exit__(type(error), error, None)
            raise

    async def _enter(self) -> Any:
        self._block = self._made()
        given = await self._block.__aenter__()
        self._is_entered = True
        return given

    @property
    def runs_again(self) -> bool:
        """Whether a transaction is to be run again, since it met others."""
        return bool(getattr(self._block, "runs_again", False))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_entered = False

        def finish() -> None:
            # The client was closed in it, which has ended what it has of it.
            _finish(self._block.__aexit__(kind, error, traceback))
            if self._loop.failure is not None and not getattr(self._block, "ends_nothing", False):
                raise self._loop.lost("NotSent")

        try:
            leave = self._block.__aexit__
            self._loop.leave(
                leave, kind, error, traceback, closed=finish, part_of=self._part_of
            )
        except Error as why:
            # Where a signal's handler has raised nothing is left to end, and that goes on; and so
            # does what the block has raised where its end took too long.
            is_late = isinstance(why, (TimeoutError, CancelledError))
            if error is None or not (is_late or self._loop.failure is not None):
                raise


class Source(Protocol[T]):
    async def _arrival(self) -> None: ...
    def _found(self) -> list[T]: ...


class Events(Iterator[T]):
    """What comes by itself: notifications, messages. It is read while a thread waits for it."""

    def __init__(self, loop: Loop, source: Source[T]) -> None:
        self._loop, self._source = loop, source

    def __next__(self) -> T:
        # Whoever waits takes nothing, so nothing is lost where that is given up.
        try:
            while not (found := self._loop.look(self._source._found, _limit.get())):
                self._loop.run(self._source._arrival)
        except StopAsyncIteration:
            raise StopIteration from None
        return found[0]

    def take(self, timeout: float) -> T | None:
        """The next, or None where none comes within so many seconds; with 0, where none has come.
        """
        outer = _limit.get()
        limit = Timeout(timeout)._within(outer)
        try:
            while not (found := self._loop.look(self._source._found, outer)):
                try:
                    self._loop.run_within(limit, self._source._arrival)
                except (TimeoutError, CancelledError):
                    if outer is not None and outer.is_over():
                        raise
                    found = self._loop.look(self._source._found, outer, reads=True)
                    break
        except StopAsyncIteration:
            return None
        return found[0] if found else None


class Stream(Iterator[T]):
    """Rows, or the data of a COPY, as they arrive. For one thread at a time.

    ``with`` gives the connection back at a certain moment.
    """

    def __init__(
        self, loop: Loop, made: Callable[[], Flow[T]], part_of: Loan | None = None
    ) -> None:
        self._loop, self._part_of = loop, part_of
        self._source = made()

    def __next__(self) -> T:
        for one in self._source._come:
            return one
        call = self._source._call
        loop, source = self._loop, self._source

        def end() -> T:
            # The core knows what became of it.
            return _at_once(_next(source), loop)

        try:
            come: T = loop.run_within(
                _limit.get(), lambda: _next(source), closed=end, part_of=self._part_of
            )
        except StopAsyncIteration:
            raise StopIteration from None
        except (TimeoutError, CancelledError) as error:
            # It may speak of this step alone, which was not taken any more.
            if call is not None and error.outcome == "NotSent":
                error.outcome = outcome_of(call)
                loop.leave(self._stop, error, closed=lambda: source._stop(error))
            raise marked(error, self._part_of)
        except BaseException as error:
            # With what a signal's handler has raised, rows may be lost that were taken.
            source._misses(error)
            raise
        return come

    async def _stop(self, error: BaseException) -> None:
        self._source._stop(error)

    def close(self) -> None:
        """Takes no more. The rest of a long reply costs its connection."""
        if self._source._lent is not None:
            self._loop.leave(self._source.aclose)

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _finish(work: Coroutine[Any, Any, None]) -> None:
    """What waits for nothing."""
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()


def _at_once(work: Coroutine[Any, Any, T], loop: Loop) -> T:
    """What it returns where it waits for nothing any more."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise MisuseError("the client was closed") if loop.failure is None else loop.lost("Unknown")


async def _next(source: AsyncIterator[T]) -> T:
    return await source.__anext__()


def grouped(items: Iterator[Any], size: Callable[[Any], int], full: int) -> Iterator[list[Any]]:
    """Items in lists of about this size."""
    group, held = [], 0
    for item in items:
        group.append(item)
        held += size(item)
        if held >= full:
            yield group
            group, held = [], 0
    yield group
