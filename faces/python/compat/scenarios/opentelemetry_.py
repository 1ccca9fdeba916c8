"""OpenTelemetry's instrumentation of asyncpg: the spans of a program, and what they say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from opentelemetry import trace
from opentelemetry.instrumentation.asyncpg import AsyncPGInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


@asynccontextmanager
async def _traced(stage: Any, label: str, **settings: Any) -> AsyncIterator[trace.Tracer]:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = AsyncPGInstrumentor(**settings)
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield provider.get_tracer("program")
    finally:
        instrumentor.uninstrument()
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    # A reset is no statement of its own here: it leaves with what comes next.
    for span in spans:
        if "pg_advisory_unlock_all" not in str(span.attributes):
            stage.see(f"{label}: {span.name}", [
                span.kind.name, sorted(map(list, span.attributes.items())),
                span.status.status_code.name, [event.name for event in span.events],
                names.get(span.parent.span_id) if span.parent else None,
            ])


async def _fails(call: Any) -> None:
    try:
        await call
    except Exception:
        pass


async def of_a_connection(stage: Any) -> None:
    for label, settings in (("plain", {}), ("with parameters", {"capture_parameters": True})):
        async with _traced(stage, label, **settings) as tracer:
            con = await asyncpg.connect(stage.url)
            with tracer.start_as_current_span("all"):
                await con.execute("create temp table t (id int, name text)")
                await con.execute("insert into t values ($1, $2)", 1, "x")
                await con.executemany("insert into t values ($1, $2)", [(2, "y"), (3, "z")])
                await con.fetch("/* why */ select * from t where id > $1", 1)
                await con.fetchrow("select 1")
                await con.fetchval("select $1::text", "v")
                await _fails(con.fetch("select 1 / 0"))
                await _fails(con.execute("selec"))
                async with con.transaction():
                    async with con.transaction():
                        await con.execute("delete from t where id = 2")
                statement = await con.prepare("select id from t where id > $1 order by id")
                await statement.fetch(0)
                await statement.fetchrow(0)
                await statement.fetchval(0)
                await statement.executemany([(1,), (2,)])
                async with con.transaction():
                    async for _ in con.cursor("select id from t order by id", prefetch=1):
                        pass
                    cursor = await con.cursor("select id from t where id > $1 order by id", 0)
                    await cursor.fetch(1)
                    await cursor.fetchrow()
                    await cursor.forward(1)
            await con.close()


async def of_a_pool(stage: Any) -> None:
    async with _traced(stage, "pool") as tracer:
        async with asyncpg.create_pool(stage.url, min_size=1, max_size=2) as pool:
            with tracer.start_as_current_span("all"):
                await pool.execute("create table if not exists traced (id int)")
                await pool.fetch("select * from traced")
                await pool.fetchval("select 1")
                await pool.fetchrow("select 2")
                await pool.executemany("insert into traced values ($1)", [(1,), (2,)])
                async with pool.acquire() as con, con.transaction():
                    await con.execute("drop table traced")
                await _fails(pool.fetch("select * from traced"))
                await asyncio.gather(*(pool.fetchval("select 3") for _ in range(5)))


async def once_it_is_off(stage: Any) -> None:
    con = await asyncpg.connect(stage.url)
    async with _traced(stage, "on"):
        await con.fetch("select 1")
    await con.fetch("select 2")
    stage.see("rows", await con.fetchval("select 3"))
    await con.close()
