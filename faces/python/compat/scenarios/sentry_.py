"""Sentry's integration of asyncpg: spans, breadcrumbs and errors of a program."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import sentry_sdk
from sentry_sdk.integrations.asyncpg import AsyncPGIntegration
from sentry_sdk.transport import Transport


class Kept(Transport):
    """Keeps what is sent."""

    events: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.events += [item.payload.json for item in envelope.items if item.payload.json]


def _begin(**settings: Any) -> None:
    Kept.events = []
    sentry_sdk.init(
        dsn="http://key@127.0.0.1:1/1", transport=Kept, traces_sample_rate=1.0,
        default_integrations=False, integrations=[AsyncPGIntegration(**settings)],
        debug=False,
    )


def _told(stage: Any, label: str) -> None:
    sentry_sdk.flush()
    for event in Kept.events:
        if event.get("type") == "transaction":
            for span in event["spans"]:
                data = {
                    key: value for key, value in span.get("data", {}).items()
                    if key.startswith(("db.", "server."))
                    and key not in ("db.cursor", "server.address")
                }
                if "pg_advisory_unlock_all" in str(span):
                    # It is no statement of its own here: it leaves with what comes next.
                    continue
                told = [span["op"], span.get("description"), span.get("origin"), span.get("status")]
                stage.see(f"{label}: span", [told, sorted(map(list, data.items()))])
        else:
            values = event.get("exception", {}).get("values", [])
            stage.see(f"{label}: error", [[it["type"], it["value"]] for it in values])
            stage.see(f"{label}: crumbs", [
                [it["category"], it["message"]] for it in event["breadcrumbs"]["values"]
            ])


async def _program(url: str) -> None:
    con = await asyncpg.connect(url)
    await con.execute("create temp table t (id int, name text)")
    await con.execute("insert into t values ($1, $2)", 1, "x")
    await con.executemany("insert into t values ($1, $2)", [(2, "y"), (3, "z")])
    await con.fetch("select *\n  from t where id > $1", 1)
    await con.fetchrow("select 1")
    await con.fetchval("select $1::text", "v")
    statement = await con.prepare("select id from t")
    await statement.fetch()
    async with con.transaction():
        async for _ in con.cursor("select id from t order by id", prefetch=2):
            pass
        cursor = await con.cursor("select id from t where id > $1 order by id", 0)
        await cursor.fetch(1)
    try:
        await con.fetch("select 1 / 0")
    except asyncpg.DivisionByZeroError as error:
        sentry_sdk.capture_exception(error)
    await con.close()


async def of_a_connection(stage: Any) -> None:
    for label, settings in (("plain", {}), ("with parameters", {"record_params": True})):
        _begin(**settings)
        with sentry_sdk.start_transaction(name="all"):
            await _program(stage.url)
        _told(stage, label)


async def of_a_pool(stage: Any) -> None:
    _begin()
    with sentry_sdk.start_transaction(name="all"):
        async with asyncpg.create_pool(stage.url, min_size=1, max_size=1) as pool:
            await pool.execute("create table if not exists seen (id int)")
            await pool.fetch("select * from seen where id = $1", 1)
            await pool.fetchval("select 1")
            await pool.executemany("insert into seen values ($1)", [(1,), (2,)])
            async with pool.acquire() as con, con.transaction():
                await con.execute("drop table seen")
            await asyncio.gather(*(pool.fetchval("select 3") for _ in range(3)))
    _told(stage, "pool")
