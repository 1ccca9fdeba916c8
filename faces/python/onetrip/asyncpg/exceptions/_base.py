"""The classes that have no SQLSTATE, and what all have in common."""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = (
    "ClientConfigurationError",
    "FatalPostgresError",
    "InterfaceError",
    "InterfaceWarning",
    "InternalClientError",
    "OutdatedSchemaCacheError",
    "PostgresError",
    "PostgresLogMessage",
    "PostgresWarning",
    "ProtocolError",
    "TargetServerAttributeNotMatched",
    "UnknownPostgresError",
    "UnsupportedClientFeatureError",
    "UnsupportedServerFeatureError",
)

#: The fields of a server's message (protocol-error-fields).
FIELDS = {
    "S": "severity",
    "V": "severity_en",
    "C": "sqlstate",
    "M": "message",
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
    "F": "server_source_filename",
    "L": "server_source_line",
    "R": "server_source_function",
}


_POOLERS = """
NOTE: pgbouncer with pool_mode set to "transaction" or "statement" shares servers, and with them the
names of statements that were prepared by PREPARE. Prepare by `Connection.prepare`, or use a session.
"""


class PostgresMessage:
    """What a server has said."""

    _by_code: ClassVar[dict[str, type]] = {}
    severity: str | None = None
    severity_en: str | None = None
    sqlstate: str | None = None
    message: str | None = None
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
    server_source_filename: str | None = None
    server_source_line: str | None = None
    server_source_function: str | None = None
    query: str | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        code = cls.__dict__.get("sqlstate")
        if code is not None:
            PostgresMessage._by_code[code] = cls

    @classmethod
    def _read(cls, fields: dict[str, str], query: str | None) -> tuple[type, dict[str, Any]]:
        told: dict[str, Any] = {FIELDS[it]: fields[it] for it in fields if it in FIELDS}
        told["query"] = query
        code = fields.get("C", "")
        if code == "0A000" and fields.get("R") == "RevalidateCachedQuery":
            # The same code stands for much else, and the text is in the server's language.
            told["message"] = (
                "cached statement plan is invalid due to a database schema or configuration change"
            )
            code = "RevalidateCachedQuery"
        elif code in ("42P05", "26000"):
            told["hint"] = told.get("hint", "") + _POOLERS
        return PostgresMessage._by_code.get(code, UnknownPostgresError), told

    def as_dict(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in FIELDS.values()}
        return {name: value for name, value in told.items() if value is not None}


def _with_details(error: Any) -> str:
    text = str(error.args[0])
    if error.detail:
        text += f"\nDETAIL:  {error.detail}"
    if error.hint:
        text += f"\nHINT:  {error.hint}"
    return text


class PostgresError(PostgresMessage, Exception):
    """All errors of the server."""

    __str__ = _with_details

    @classmethod
    def new(cls, fields: dict[str, str], query: str | None = None) -> Any:
        kind, told = cls._read(fields, query)
        error = kind(told.get("message", ""))
        error.__dict__.update(told)
        return error


class FatalPostgresError(PostgresError):
    """The server ends the connection."""


class UnknownPostgresError(FatalPostgresError):
    """An SQLSTATE that is not known."""


class InterfaceMessage:
    """What this side says."""

    args: tuple[Any, ...]

    def __init__(self, *, detail: str | None = None, hint: str | None = None) -> None:
        self.detail, self.hint = detail, hint

    __str__ = _with_details


class InterfaceError(InterfaceMessage, Exception):
    """A call can't be made so."""

    def __init__(self, msg: str, *, detail: str | None = None, hint: str | None = None) -> None:
        InterfaceMessage.__init__(self, detail=detail, hint=hint)
        Exception.__init__(self, msg)

    def with_msg(self, msg: str) -> InterfaceError:
        made = type(self)(msg, detail=self.detail, hint=self.hint)
        return made.with_traceback(self.__traceback__)


class ClientConfigurationError(InterfaceError, ValueError):
    """The configuration can't be used."""


class UnsupportedClientFeatureError(InterfaceError):
    """This client has no such feature."""


class UnsupportedServerFeatureError(InterfaceError):
    """The server has no such feature."""


class InterfaceWarning(InterfaceMessage, UserWarning):
    """A call is made so that something may go wrong."""

    def __init__(self, msg: str, *, detail: str | None = None, hint: str | None = None) -> None:
        InterfaceMessage.__init__(self, detail=detail, hint=hint)
        UserWarning.__init__(self, msg)


class InternalClientError(Exception):
    """Anything else that goes wrong on this side."""


class ProtocolError(InternalClientError):
    """The server sent what can't be understood."""


class TargetServerAttributeNotMatched(InternalClientError):
    """No server is of the kind that was asked for."""


class OutdatedSchemaCacheError(InternalClientError):
    """A value can't be read, since its type has changed."""


class PostgresLogMessage(PostgresMessage):
    """What a server says that is no error."""

    def __str__(self) -> str:
        return f"{type(self).__name__}: {self.message}"

    @classmethod
    def new(cls, fields: dict[str, str], query: str | None = None) -> Any:
        kind, told = cls._read(fields, query)
        if kind is UnknownPostgresError or kind is PostgresWarning:
            severity = fields.get("V") or fields.get("S") or ""
            kind = PostgresWarning if severity.upper() == "WARNING" else PostgresLogMessage
        message = kind(told.get("message", "")) if issubclass(kind, BaseException) else kind()
        message.__dict__.update(told)
        return message


class PostgresWarning(PostgresLogMessage, Warning):
    sqlstate = "01000"
