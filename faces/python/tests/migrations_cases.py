"""The kinds of DDL of proof/chaos/migrations.json, whose fields proof/chaos/MIGRATIONS.md describes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[3] / "proof" / "chaos" / "migrations.json"
CONTENT = json.loads(FILE.read_text())
#: What is left, with a reason, is run only if ``ONETRIP_LEFT`` is set.
LEFT = [it for it in CONTENT["left"] if "python" in it["faces"] and "ONETRIP_LEFT" not in os.environ]
ALL = ["insert", "returning", "update", "where", "coalesce", "star", "copy"]


@dataclass(frozen=True)
class Statement:
    name: str
    #: Empty for a COPY into the table of the schema.
    text: str
    parameters: list[str]
    schema: str = ""
    table: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Use:
    """One use of a statement."""

    statement: Statement
    given: Any
    #: The number of the row that it writes, if it writes one.
    id: int

    @property
    def key(self) -> str:
        """What two uses have in common that come to the same."""
        given = json.dumps(self.given) if "value" in self.statement.parameters else ""
        return f"{self.statement.name} {given}"


@dataclass(frozen=True)
class Case:
    """One kind of DDL, for a schema of its own."""

    name: str
    extension: str | None
    setup: list[str]
    migrate: list[str]
    #: What undoes it, if something does.
    back: list[str]
    #: What sessions of one client set, in place of a migration.
    sessions: list[list[str]]
    #: Each of `sessions` needs those before it, in the same session.
    chained: bool
    #: It changes no type, so no statement may fail for it.
    calm: bool
    #: Rows that were written before are gone behind it.
    forgets: bool
    tables: list[str]
    statements: list[Statement]
    before: list[Any]
    after: list[Any]


def cases(schema: str) -> list[Case]:
    left = [it.get("case") for it in LEFT if "statement" not in it]
    return [_case(raw, schema) for raw in CONTENT["cases"] if raw["name"] not in left]


def _case(raw: dict[str, Any], schema: str) -> Case:
    long = _altered(raw) if "was" in raw else raw

    def filled(texts: list[str]) -> list[str]:
        return [text.replace("{s}", schema) for text in texts]

    return Case(
        name=raw["name"],
        extension=raw.get("extension"),
        setup=filled(long["setup"]),
        migrate=filled(long.get("migrate", [])),
        back=filled(long.get("back", [])),
        sessions=[filled(texts) for texts in raw.get("sessions", [])],
        chained=raw.get("chained", False),
        calm=raw.get("calm", False),
        forgets=raw.get("forgets", False),
        tables=[
            schema + (name if name[0] in "_." else f".{name}") for name in raw.get("tables", ["t"])
        ],
        statements=[
            _statement(it, schema)
            for it in raw.get("statements", ALL)
            if not any(_is_left(left, raw["name"], it) for left in LEFT)
        ],
        before=raw["before"],
        after=raw["after"],
    )


def _is_left(left: dict[str, Any], case: str, statement: str | dict[str, Any]) -> bool:
    return left.get("case", case) == case and left.get("statement") == statement


def _statement(listed: str | dict[str, Any], schema: str) -> Statement:
    raw = CONTENT["statements"][listed] if isinstance(listed, str) else listed
    name = listed if isinstance(listed, str) else listed["name"]
    if "copy" in raw:
        columns = tuple(raw["columns"])
        return Statement(name, "", raw["parameters"], schema, raw["copy"], columns)
    return Statement(name, raw["text"].replace("{s}", schema), raw["parameters"])


def _altered(raw: dict[str, Any]) -> dict[str, Any]:
    """The long form of a case that has `was` and `becomes`: a column of another type."""
    using = f" using {raw['using']}" if "using" in raw else ""
    rows = ", ".join(f"({-at - 1}, {row})" for at, row in enumerate(raw["rows"]))
    fill = f"insert into {{s}}.t (id, c) values {rows}"
    was, becomes = raw["was"], raw["becomes"]
    return {
        "setup": [
            f"create table {{s}}.t (id int, c {was})",
            fill,
            "insert into {s}.t (id, c) values (0, null)",
        ],
        "migrate": [f"alter table {{s}}.t alter c type {becomes}{using}"],
        "back": [
            "update {s}.t set c = null",
            f"alter table {{s}}.t alter c type {was} using null::{was}",
            "delete from {s}.t where id < 0",
            fill,
        ],
    }
