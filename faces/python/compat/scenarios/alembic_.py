"""Alembic: revisions up and down, one that fails, offline texts, what autogenerate finds."""

from __future__ import annotations

import asyncio
import io
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata, produce_migrations, render_python_code
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import create_async_engine

#: As `alembic init -t async` writes it, without logging.
ENV = """
import asyncio
from alembic import context
from sqlalchemy import pool
from sqlalchemy.ext.asyncio import async_engine_from_config

config = context.config

def run(connection):
    context.configure(connection=connection, transaction_per_migration=bool(
        config.get_main_option("each")))
    with context.begin_transaction():
        context.run_migrations()

async def online():
    section = config.get_section(config.config_ini_section, {})
    engine = async_engine_from_config(section, prefix="sqlalchemy.", poolclass=pool.NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(run)
    await engine.dispose()

if context.is_offline_mode():
    context.configure(url=config.get_main_option("sqlalchemy.url"), literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    asyncio.run(online())
"""

TEMPLATE = """
from alembic import context, op
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

revision, down_revision = {0!r}, {1!r}

def upgrade():
{2}

def downgrade():
{3}
"""

REVISIONS = (
    ("one", None, """
    op.create_table("person",
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, server_default="nobody"),
        sa.Column("mood", sa.Enum("sad", "glad", name="mood")),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now()))
    op.bulk_insert(sa.table("person", sa.column("id"), sa.column("name")),
        [{"id": n, "name": f"p{n}"} for n in range(1, 101)])
    """, """
    op.drop_table("person")
    op.execute("drop type mood")
    """),
    ("two", "one", """
    op.add_column("person", sa.Column("tags", postgresql.ARRAY(sa.Text), server_default="{}"))
    op.alter_column("person", "name", new_column_name="called", type_=sa.String(40))
    op.create_index("person_called", "person", ["called"], unique=True)
    with op.get_context().autocommit_block():
        op.execute("alter type mood add value 'odd'")
        op.execute("create index concurrently person_at on person (at)")
    if not context.is_offline_mode():
        count = op.get_bind().execute(sa.text("select count(*) from person")).scalar()
        op.execute(f"update person set mood = 'odd' where id > {count - 10}")
    """, """
    op.execute("update person set mood = null")
    op.drop_index("person_at")
    op.drop_index("person_called")
    op.alter_column("person", "called", new_column_name="name", type_=sa.Text)
    op.drop_column("person", "tags")
    """),
    ("three", "two", """
    op.create_table("pet", sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("owner", sa.BigInteger,
            sa.ForeignKey("person.id", ondelete="cascade", name="of_person")))
    op.create_check_constraint("short", "person", "length(called) < 4")
    """, """
    op.drop_table("pet")
    """),
)


def _config(stage: Any, folder: str, **options: str) -> Config:
    (Path(folder) / "versions").mkdir(exist_ok=True)
    (Path(folder) / "env.py").write_text(ENV)
    for revision in REVISIONS:
        place = Path(folder) / "versions" / f"{revision[0]}.py"
        place.write_text(TEMPLATE.format(*revision))
    config = Config(stdout=io.StringIO(), output_buffer=io.StringIO())
    for name, value in {"script_location": folder, "sqlalchemy.url": stage.database_url}.items():
        config.set_main_option(name, value)
    for name, value in options.items():
        config.set_main_option(name, value)
    return config


async def _schema(stage: Any, label: str) -> None:
    engine = create_async_engine(stage.database_url)
    async with engine.connect() as con:
        def read(it: Any) -> Any:
            found = sa.inspect(it)
            return [
                [name, [[c["name"], str(c["type"]), c["default"]] for c in found.get_columns(name)],
                 found.get_indexes(name), found.get_foreign_keys(name)]
                for name in sorted(found.get_table_names())
            ]

        stage.see(label, await con.run_sync(read))
        if await con.run_sync(lambda it: sa.inspect(it).has_table("alembic_version")):
            rows = await con.execute(sa.text("select version_num from alembic_version"))
            stage.see(f"{label}: version", [row[0] for row in rows])
    await engine.dispose()


async def up_and_down(stage: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = _config(stage, folder)
        for label, run in (
            ("to the second", lambda: command.upgrade(config, "two")),
            ("the third fails", lambda: command.upgrade(config, "head")),
            ("down by one", lambda: command.downgrade(config, "-1")),
            ("up again", lambda: command.upgrade(config, "+1")),
            ("stamped", lambda: command.stamp(config, "one")),
            ("stamped back", lambda: command.stamp(config, "two")),
            ("down to the base", lambda: command.downgrade(config, "base")),
        ):
            await stage.settles(label, asyncio.to_thread(run))
            await _schema(stage, label)
        await asyncio.to_thread(command.history, config)
        stage.see("told", config.stdout.getvalue())


async def each_in_a_transaction_of_its_own(stage: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = _config(stage, folder, each="yes")
        await stage.settles("all", asyncio.to_thread(command.upgrade, config, "head"))
        await _schema(stage, "those before it stand")
        await stage.settles("down", asyncio.to_thread(command.downgrade, config, "base"))


async def offline(stage: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = _config(stage, folder)
        command.upgrade(config, "one:three", sql=True)
        stage.see("text", config.output_buffer.getvalue())


async def autogenerate(stage: Any) -> None:
    engine = create_async_engine(stage.database_url)
    metadata = sa.MetaData()
    table = sa.Table(
        "thing", metadata, sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(10), index=True), sa.Column("data", pg.JSONB),
        sa.Column("of", sa.ForeignKey("thing.id")), sa.UniqueConstraint("name", "of", name="both"),
        sa.Column("home", pg.INET, server_default="10.0.0.1"),
    )

    def differences(it: Any) -> Any:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(it, opts=options)
        code = render_python_code(produce_migrations(context, metadata).upgrade_ops)
        return [repr(one[:1]) for one in compare_metadata(context, metadata)], code

    async with engine.begin() as con:
        stage.see("all is missing", await con.run_sync(differences))
        await con.run_sync(metadata.create_all)
        stage.see("nothing is", await con.run_sync(differences))
        await con.execute(sa.text("alter table thing alter name type text, drop data, add x int"))
        await con.execute(sa.text("drop index ix_thing_name; "))
        stage.see("it was changed", await con.run_sync(differences))
        await con.run_sync(metadata.drop_all)
    await engine.dispose()
    stage.see("table", table.name)
