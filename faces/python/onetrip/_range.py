"""Ranges, as PostgreSQL has them."""

from __future__ import annotations

from typing import Any


class Range:
    """A range; a bound of None is infinite. Immutable."""

    __slots__ = ("_empty", "_lower", "_lower_inc", "_upper", "_upper_inc")

    def __init__(
        self,
        lower: Any = None,
        upper: Any = None,
        lower_inc: bool = True,
        upper_inc: bool = False,
        empty: bool = False,
    ) -> None:
        self._empty = empty
        self._lower = None if empty else lower
        self._upper = None if empty else upper
        self._lower_inc = self._lower is not None and lower_inc
        self._upper_inc = self._upper is not None and upper_inc

    @property
    def lower(self) -> Any:
        return self._lower

    @property
    def upper(self) -> Any:
        return self._upper

    @property
    def lower_inc(self) -> bool:
        return self._lower_inc

    @property
    def upper_inc(self) -> bool:
        return self._upper_inc

    @property
    def lower_inf(self) -> bool:
        return self._lower is None and not self._empty

    @property
    def upper_inf(self) -> bool:
        return self._upper is None and not self._empty

    @property
    def isempty(self) -> bool:
        return self._empty

    def issubset(self, other: Range) -> bool:
        """Whether the other has all that is in this one."""
        if self._empty or other._empty:
            return self._empty
        return self._ends(other, "lower", 1) and self._ends(other, "upper", -1)

    def issuperset(self, other: Range) -> bool:
        return other.issubset(self)

    def _ends(self, other: Range, side: str, sign: int) -> bool:
        """Whether it ends on this side no further out than the other."""
        ours, theirs = getattr(self, side), getattr(other, side)
        if ours is None or theirs is None:
            return theirs is None
        if ours == theirs:
            return getattr(other, f"{side}_inc") or not getattr(self, f"{side}_inc")
        return bool(ours > theirs if sign > 0 else ours < theirs)

    def _key(self) -> tuple[Any, ...]:
        return (self._lower, self._upper, self._lower_inc, self._upper_inc, self._empty)

    def __bool__(self) -> bool:
        return not self._empty

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Range) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        if self._empty:
            return "<Range empty>"
        lower = "" if self._lower is None else repr(self._lower)
        upper = "" if self._upper is None else repr(self._upper)
        return f"<Range {'(['[self._lower_inc]}{lower}, {upper}{')]'[self._upper_inc]}>"
