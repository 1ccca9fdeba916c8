"""Texts of SQL."""

from __future__ import annotations

import re
from typing import Any


def _quote_ident(ident: str) -> str:
    return '"{}"'.format(ident.replace('"', '""'))


def _quote_literal(string: str) -> str:
    return "'{}'".format(string.replace("'", "''"))


async def _mogrify(conn: Any, query: str, args: Any) -> str:
    """The text with the values in it, as the server writes them."""
    state = await conn._get_statement(query, None)
    casts = ", ".join(
        f"${place}::{_quote_ident(type_.schema)}.{_type_name(type_.name)}::text"
        for place, type_ in enumerate(state.parameters, 1)
    )
    if not casts:
        return query
    texts = await conn.fetchrow(f"SELECT {casts}", *args)

    def literal(match: re.Match[str]) -> str:
        text = texts[int(match[1]) - 1]
        return "NULL" if text is None else _quote_literal(text)

    return re.sub(r"\$(\d+)\b", literal, query)


def _type_name(name: str) -> str:
    return _quote_ident(name[:-2]) + "[]" if name.endswith("[]") else _quote_ident(name)
