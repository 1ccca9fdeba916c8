"""What is raised.

Each error says by its class whose fault it is, and by ``outcome`` whether the statement ran.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from . import _native

Outcome = Literal["NotSent", "Rejected", "Applied", "Unknown"]


class Error(Exception):
    """All errors of onetrip."""

    #: A name for programs: the SQLSTATE, or this side's own word.
    code: str = "error"
    #: What the server said, by the letters of its fields.
    fields: dict[str, str] | None = None
    #: ``NotSent``: nothing left. ``Rejected``: it had no effect. ``Applied``: it took effect, and
    #: only its answer could not be read. ``Unknown``: it may have run.
    outcome: Outcome = "NotSent"

    #: Of a statement with many rows of arguments: the place of the one that failed, from 0.
    index: int | None = None

    @property
    def is_retry_safe(self) -> bool:
        """Whether nothing of it can have taken effect, so that it may be sent again."""
        return self.outcome in ("NotSent", "Rejected")


class MisuseError(Error):
    """The call can't be made so. Its outcome says whether anything was sent: a statement whose
    result is too large has run, for example (``Applied``).
    """


class ParameterError(MisuseError, ValueError):
    """An argument does not fit its parameter. It was not sent; if its outcome is ``Rejected``, then
    a part of its transaction was.
    """


class ConversionError(Error):
    """A value of the answer could not be read."""


class TimeoutError(Error):
    """Something was not done in time."""


class CancelledError(Error):
    """It was given up."""


class RolledBackError(Error):
    """What was to stand was rolled back."""


class ConnectionLostError(Error):
    """The connection has ended."""


class ConnectError(ConnectionLostError):
    """No server could be reached, or none that will do."""


class PostgresError(Error):
    """The server said so. There is a class for each class of SQLSTATE."""

    sqlstate: str = ""
    severity: str = "ERROR"
    detail: str | None = None
    hint: str | None = None
    position: str | None = None
    internal_position: str | None = None
    internal_query: str | None = None
    context: str | None = None
    schema_name: str | None = None
    table_name: str | None = None
    column_name: str | None = None
    data_type_name: str | None = None
    constraint_name: str | None = None

    #: By SQLSTATE, or by the two letters of its class.
    _by_code: ClassVar[dict[str, type[PostgresError]]] = {}

    def __init_subclass__(cls, code: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if code:
            PostgresError._by_code[code] = cls


class RedisError(Error):
    """Redis said so: ``code`` is the first word of its message, as ``WRONGTYPE``."""

    #: The command that was answered so.
    command: str = ""


def _answered(command: str, outcome: Outcome, text: str) -> RedisError:
    told = _native.one_line(text)
    error = RedisError(f"{command}: {told}" if command else told)
    error.code, error.outcome, error.command = text.split(" ", 1)[0], outcome, command
    return error


class FeatureNotSupportedError(PostgresError, code="0A"): ...
class CardinalityError(PostgresError, code="21"): ...
class DataError(PostgresError, code="22"): ...
class IntegrityError(PostgresError, code="23"): ...
class NotNullViolation(IntegrityError, code="23502"): ...
class ForeignKeyViolation(IntegrityError, code="23503"): ...
class UniqueViolation(IntegrityError, code="23505"): ...
class CheckViolation(IntegrityError, code="23514"): ...
class ExclusionViolation(IntegrityError, code="23P01"): ...
class InvalidTransactionStateError(PostgresError, code="25"): ...
class AuthorizationError(PostgresError, code="28"): ...
class TransactionRollbackError(PostgresError, code="40"): ...
class SerializationError(TransactionRollbackError, code="40001"): ...
class DeadlockError(TransactionRollbackError, code="40P01"): ...
class ProgrammingError(PostgresError, code="42"): ...
class InsufficientPrivilegeError(ProgrammingError, code="42501"): ...
class UndefinedColumnError(ProgrammingError, code="42703"): ...
class UndefinedFunctionError(ProgrammingError, code="42883"): ...
class UndefinedTableError(ProgrammingError, code="42P01"): ...
class ResourceError(PostgresError, code="53"): ...
class LimitError(PostgresError, code="54"): ...
class ObjectStateError(PostgresError, code="55"): ...
class LockNotAvailableError(ObjectStateError, code="55P03"): ...
class OperatorInterventionError(PostgresError, code="57"): ...
class QueryCanceledError(OperatorInterventionError, code="57014"): ...
class SystemError(PostgresError, code="58"): ...
class RaisedError(PostgresError, code="P0"): ...
class InternalError(PostgresError, code="XX"): ...


class Notice:
    """What the server remarks, as by ``raise notice``."""

    def __init__(self, fields: dict[str, str]) -> None:
        self.severity, self.sqlstate = fields.get("V", "NOTICE"), fields.get("C", "")
        self.message, self.detail = fields.get("M", ""), fields.get("D")
        self.hint, self.context = fields.get("H"), fields.get("W")

    def __repr__(self) -> str:
        return f"<Notice {self.severity} {self.message!r}>"


#: Which field of a server's message is which (protocol-error-fields).
_FIELDS = {
    "V": "severity",
    "D": "detail",
    "H": "hint",
    "P": "position",
    "p": "internal_position",
    "q": "internal_query",
    "W": "context",
    "s": "schema_name",
    "t": "table_name",
    "c": "column_name",
    "d": "data_type_name",
    "n": "constraint_name",
}

_OURS: dict[str, type[Error]] = {
    "parameter": ParameterError,
    "conversion": ConversionError,
    "timeout": TimeoutError,
    "wait_timeout": TimeoutError,
    "cancelled": CancelledError,
    "rolled_back": RolledBackError,
    "connection_lost": ConnectionLostError,
    "connect_failed": ConnectError,
    "sentinel": ConnectError,
    "other_role": ConnectError,
    "no_replica": ConnectError,
    "unserved_slot": ConnectError,
    "aborted": RolledBackError,
    "protocol": ConnectionLostError,
}


def _closed() -> Error:
    """What a call of a client says that was closed."""
    return _make("closed", "NotSent", "the client was closed by this program", None)


def _make(
    code: str,
    outcome: Outcome,
    message: str,
    fields: dict[str, str] | None,
    cause: BaseException | None = None,
) -> Error:
    """An error of this side, or of the server: then the message stands in front of its own."""
    error: Error
    if fields is None:
        error = _OURS.get(code, MisuseError)(message)
    else:
        code = fields.get("C", "")
        by_code = PostgresError._by_code
        kind = by_code.get(code) or by_code.get(code[:2]) or PostgresError
        error = kind(message + (_native.one_line(fields.get("M", "")) or "the server gave no reason"))
        error.sqlstate = code
        for letter, name in _FIELDS.items():
            if letter in fields:
                setattr(error, name, fields[letter])
    error.code = code
    error.fields = fields
    error.outcome = outcome
    error.__cause__ = cause
    return error
