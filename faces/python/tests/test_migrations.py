"""A migration under running clients: what they read and store is what a client would that was
started behind it, or it is a true error that names what has changed, once."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import ipaddress
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

import onetrip
import onetrip.asyncpg
import onetrip.blocking
from conftest import URL

#: What stands before the tests, and what goes behind them.
SETUP = """
drop schema if exists moving cascade;
drop schema if exists elsewhere cascade;
create schema moving;
create schema elsewhere;
create extension if not exists hstore;
create type moving.mood as enum ('sad', 'glad');
create type moving.pair as (a int, b text);
create table moving.things (id int primary key, name text);
insert into moving.things values (1, 'one');
create function moving.answer() returns int language sql as 'select 42';
"""

READ = "select * from moving.things order by id"

#: Migrations, by what they do to a `select *`.
OF_COLUMNS = {
    "inet": "alter table moving.things add c inet default '10.0.0.1/32'",
    "int": "alter table moving.things add c int default 5",
    "hstore": "alter table moving.things add c hstore default 'a=>1'",
    "enum": "alter table moving.things add c moving.mood default 'glad'",
    "enums": "alter table moving.things add c moving.mood[] default '{sad,glad}'",
    "composite": "alter table moving.things add c moving.pair default '(1,x)'",
    "composites": "alter table moving.things add c moving.pair[] default '{\"(1,x)\"}'",
    "range": "alter table moving.things add c int4range default '[1,5)'",
    "own range": """
        create type moving.span as range (subtype = moving.mood);
        alter table moving.things add c moving.span default '[sad,glad]'""",
    "money": "alter table moving.things add c money default 1.5",
    "text to inet": "alter table moving.things alter name type inet using '10.0.0.2'",
    "text to int": "alter table moving.things alter name type int using 7",
    "text to bytea": "alter table moving.things alter name type bytea using '\\xff00'",
    "text to enum": "alter table moving.things alter name type moving.mood using 'sad'",
    "dropped": "alter table moving.things drop name",
    "dropped and added": "alter table moving.things drop name, add c inet default '10.0.0.1'",
}

Rows = list[tuple[Any, ...]]


class Face:
    """One client, in the words that the tests use."""

    def __init__(self, db: Any, drop_in: bool) -> None:
        self.db, self.drop_in = db, drop_in

    async def fetch(self, query: str, *args: Any) -> Rows:
        return [tuple(row) for row in await self.db.fetch(query, *args)]

    async def execute(self, query: str, *args: Any) -> None:
        await self.db.execute(query, *args)

    async def close(self) -> None:
        await self.db.close()


async def opened(drop_in: bool) -> Face:
    if drop_in:
        return Face(await onetrip.asyncpg.connect(URL), True)
    return Face(await onetrip.connect(URL, connections_max=1), False)


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """What is known of types has nothing to do with the loop: once is enough."""
    return asyncio.DefaultEventLoopPolicy()


FACES = ["native", "asyncpg"]


@pytest.fixture(params=FACES)
async def face(request: pytest.FixtureRequest, admin: Any) -> AsyncIterator[Face]:
    face = await opened(request.param == "asyncpg")
    yield face
    await face.close()


def in_each_face(ways: list[str]) -> list[tuple[str, str]]:
    """Each way with each face that has it: asyncpg has neither pipelines nor such streams."""
    none = {"pipeline", "stream"}
    return [(of, way) for of in FACES for way in ways if of == "native" or way not in none]


@pytest.fixture
async def admin() -> AsyncIterator[Any]:
    """The session that migrates: asyncpg's own."""
    admin = await asyncpg.connect(URL)
    await admin.execute(SETUP)
    yield admin
    await admin.execute("drop schema moving, elsewhere cascade")
    await admin.close()


async def told_now(face: Face, query: str, *args: Any) -> Any:
    """What clients say that were started now: ours, and for the drop-in asyncpg itself."""
    fresh = await opened(face.drop_in)
    try:
        rows = await fresh.fetch(query, *args)
    finally:
        await fresh.close()
    if face.drop_in:
        real = await asyncpg.connect(URL)
        try:
            assert plain(rows) == plain([tuple(row) for row in await real.fetch(query, *args)])
        finally:
            await real.close()
    return plain(rows)


def plain(value: Any) -> Any:
    """What can be compared, whoever made it."""
    if isinstance(value, (list, tuple)) or type(value).__name__ == "Record":
        return [plain(it) for it in value]
    return (type(value).__name__, repr(value).rsplit(".", 1)[-1])


#: Uses that are sent with their text, and by a name.
USES = {"once": 1, "often": 8}


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_rows_behind_a_migration_are_read_as_they_are(
    face: Face, admin: Any, migration: str, uses: int
) -> None:
    for _ in range(uses):
        await face.fetch(READ)
    await admin.execute(migration)
    expected = await told_now(face, READ)
    for _ in range(3):
        assert plain(await face.fetch(READ)) == expected


#: What else a `select` may meet: the text, what was there, and what becomes of it.
OF_OTHERS = {
    "function": (
        "select * from moving.answer()",
        "",
        """drop function moving.answer();
        create function moving.answer() returns inet language sql as
            $$ select '10.0.0.1'::inet $$""",
    ),
    "function of a composite": (
        "select moving.made() as it",
        """create function moving.made() returns moving.pair language sql as
            $$ select row(1, 'x')::moving.pair $$""",
        """drop function moving.made();
        create function moving.made() returns moving.mood language sql as
            $$ select 'glad'::moving.mood $$""",
    ),
    "attribute added": (
        "select p.a as it, array[p.a] as many from moving.pairs p",
        """create table moving.pairs (id int, a moving.pair);
        insert into moving.pairs values (1, '(1,x)')""",
        "alter type moving.pair add attribute c int",
    ),
    "attribute dropped": (
        "select p as it from moving.pairs p",
        """create table moving.pairs (id int, a moving.pair);
        insert into moving.pairs values (1, '(1,x)')""",
        "alter type moving.pair drop attribute b",
    ),
    "attribute of another type": (
        "select s.made as it from moving.seen s",
        """create type moving.other as (a int, b int);
        create view moving.seen as select row(1, 2)::moving.other as made""",
        """drop view moving.seen;
        alter type moving.other alter attribute b type int8;
        create view moving.seen as select row(1, 2)::moving.other as made""",
    ),
    "attribute dropped and added": (
        "select ('(1,' || 2 || ')')::moving.pair as it",
        "",
        "alter type moving.pair drop attribute b, add attribute c int8",
    ),
    "attribute without a binary form": (
        "select row(1, null)::moving.pair as it",
        "",
        "alter type moving.pair drop attribute b, add attribute d inet",
    ),
    "row of a table": (
        "select t as it from moving.things t",
        "",
        "alter table moving.things drop name, add n int8 default 5",
    ),
    "enum made anew": (
        "select * from moving.moods",
        "create table moving.moods (it moving.mood); insert into moving.moods values ('sad')",
        """alter table moving.moods alter it type text;
        drop type moving.mood cascade;
        create type moving.mood as enum ('so-so', 'sad');
        alter table moving.moods alter it type moving.mood using it::moving.mood""",
    ),
    "type of the name elsewhere": (
        "select * from moving.moods",
        "create table moving.moods (it moving.mood[]); insert into moving.moods values ('{sad}')",
        """create type elsewhere.mood as enum ('glad', 'sad');
        alter table moving.moods alter it type elsewhere.mood[] using it::text::elsewhere.mood[]""",
    ),
    "domain": (
        "select * from moving.lists",
        """create domain moving.small as int;
        create table moving.lists (it moving.small[]);
        insert into moving.lists values ('{1}')""",
        """alter table moving.lists alter it type text;
        drop domain moving.small; create domain moving.small as inet;
        update moving.lists set it = '{10.0.0.1}';
        alter table moving.lists alter it type moving.small[] using it::moving.small[]""",
    ),
}


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize(("query", "before", "migration"), OF_OTHERS.values(), ids=OF_OTHERS)
async def test_values_behind_a_migration_are_read_as_they_are(
    face: Face, admin: Any, query: str, before: str, migration: str, uses: int
) -> None:
    await admin.execute(before or "select 1")
    for _ in range(uses):
        await face.fetch(query)
    await admin.execute(migration)
    expected = await told_now(face, query)
    if "(" in query and uses == 1:
        # The function may have stored something, so it is not called again.
        try:
            await face.fetch(query)
        except Exception as error:
            assert "have changed" in str(error) and error.outcome == "Applied"  # type: ignore
    for _ in range(3):
        assert plain(await face.fetch(query)) == expected


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_a_write_behind_a_migration_is_made_once(
    face: Face, admin: Any, migration: str, uses: int
) -> None:
    """Where it returns rows that can't be read any more it says that it was made, once."""
    text = "insert into moving.things (id) values ($1) returning *"
    for number in range(uses):
        await face.fetch(text, 10 + number)
    await admin.execute(migration)
    read = "select * from moving.things where id = $1"
    await admin.execute("insert into moving.things (id) values (100)")
    expected = await told_now(face, read, 100)
    await admin.execute("delete from moving.things where id >= 100")
    try:
        told = plain(await face.fetch(text, 100))
    except Exception as error:
        # The columns are as many as before, and its text was sent with it: the server has run it.
        assert uses == 1 and ("drop name, add" in migration or "alter name" in migration)
        assert "have changed" in str(error) and error.outcome == "Applied"  # type: ignore
    else:
        assert told == expected
    assert await admin.fetchval("select count(*) from moving.things where id = 100") == 1
    again = plain(await face.fetch(text, 101))
    assert again[0][1:] == expected[0][1:]


@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_a_transaction_behind_a_migration_fails_once_at_most(
    face: Face, admin: Any, migration: str
) -> None:
    for _ in range(8):
        await face.fetch(READ)
    await admin.execute(migration)
    expected = await told_now(face, READ)
    failures = 0
    for _ in range(3):
        try:
            async with face.db.transaction() if face.drop_in else face.db.begin() as tx:
                told = await (face.db if face.drop_in else tx).fetch(READ)
        except Exception as error:
            failures += 1
            if not face.drop_in:
                assert "the columns of the statement have changed" in str(error)
        else:
            assert plain(told) == expected
    assert failures <= 1
    assert plain(await face.fetch(READ)) == expected


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_rows_of_many_sets_behind_a_migration_are_read_as_they_are(
    face: Face, admin: Any, migration: str, uses: int
) -> None:
    text = "select * from moving.things where id = $1"

    async def many() -> Any:
        return await face.db.fetchmany(text, [(1,), (2,), (1,)])

    for _ in range(uses):
        await many()
    await admin.execute(migration)
    expected = await told_now(face, text, 1)
    for _ in range(2):
        assert plain(await many()) == expected * 2


@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_a_pipeline_behind_a_migration_reads_or_says_what_changed(
    admin: Any, migration: str
) -> None:
    face = await opened(False)

    async def both() -> Any:
        async with face.db.pipeline() as p:
            one, two = p.fetch(READ), p.fetchrow(READ)
        return await one, [await two]

    for _ in range(8):
        await both()
    await admin.execute(migration)
    expected = await told_now(face, READ)
    failures = 0
    for _ in range(3):
        try:
            told = await both()
        except onetrip.Error as error:
            failures += 1
            assert "the columns of the statement have changed" in str(error)
        else:
            assert plain(told[0]) == plain(told[1]) == expected
    assert failures <= 1
    await face.close()


@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_a_stream_behind_a_migration_reads_or_says_what_changed(
    face: Face, admin: Any, migration: str
) -> None:
    async def streamed() -> Rows:
        if not face.drop_in:
            async with aclosing(face.db.stream(READ)) as rows:
                return [tuple(row) async for row in rows]
        async with face.db.transaction():
            return [tuple(row) async for row in face.db.cursor(READ)]

    await streamed()
    await admin.execute(migration)
    expected = await told_now(face, READ)
    failures = 0
    for _ in range(3):
        try:
            told = await streamed()
        except Exception as error:
            failures += 1
            assert "have changed" in str(error) or "result formats" in str(error)
        else:
            assert plain(told) == expected
    assert failures <= 1


async def test_one_migration_costs_all_texts_of_a_client_one_error(admin: Any) -> None:
    face = await opened(False)
    texts = [f"insert into moving.things (id) values ($1) returning *, {n} as n" for n in range(5)]
    for place, text in enumerate(texts):
        await face.fetch(text, 10 + place)
    await admin.execute("alter table moving.things alter name type inet using null")
    failures = 0
    for place, text in enumerate(texts):
        try:
            await face.fetch(text, 100 + place)
        except onetrip.Error as error:
            failures += 1
            assert error.outcome == "Applied"
    assert failures == 1
    assert await admin.fetchval("select count(*) from moving.things where id >= 100") == 5
    await face.close()


#: A text, an argument that goes to it before the migration, one that goes to it behind it, and what
#: is stored then.
OF_PARAMETERS = {
    "int to bigint": ("n", "int", 1, "alter n type bigint", 2**40, "1099511627776"),
    "smallint to int": ("n", "smallint", 1, "alter n type int", 2**20, "1048576"),
    "timestamp to timestamptz": (
        "n",
        "timestamp",
        datetime.datetime(2020, 1, 1),
        "alter n type timestamptz",
        datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
        "2020-01-01 00:00:00+00",
    ),
    "timestamptz to timestamp": (
        "n",
        "timestamptz",
        datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
        "alter n type timestamp",
        datetime.datetime(2020, 1, 1, 5),
        "2020-01-01 05:00:00",
    ),
    "int to text": ("n", "int", 1, "alter n type text", "x", "x"),
    "text to int": ("n", "text", "1", "alter n type int using n::int", 7, "7"),
    "int to list": ("n", "int", 1, "alter n type int[] using array[n]", [1, 2], "{1,2}"),
    "int to uuid": (
        "n",
        "int",
        1,
        "alter n type uuid using null",
        "00000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0000-000000000001",
    ),
    "attribute added": (
        "n",
        "moving.pair",
        (1, "x"),
        None,
        (1, "x", 2),
        "(1,x,2)",
    ),
    "enum made anew": (
        "n",
        "moving.mood",
        "sad",
        "alter n type text",
        "so-so",
        "so-so",
    ),
}


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize(
    ("column", "type_", "before", "migration", "behind", "stored"),
    OF_PARAMETERS.values(),
    ids=OF_PARAMETERS,
)
async def test_arguments_behind_a_migration_are_taken_as_it_is(
    face: Face,
    admin: Any,
    column: str,
    type_: str,
    before: Any,
    migration: str | None,
    behind: Any,
    stored: str,
    uses: int,
) -> None:
    await admin.execute(f"create table moving.values (id serial, {column} {type_})")
    text = f"insert into moving.values ({column}) values ($1)"
    for _ in range(uses):
        await face.execute(text, before)
    if migration is None:
        await admin.execute("alter type moving.pair add attribute c int")
    else:
        await admin.execute(f"alter table moving.values {migration}")
    if type_ == "moving.mood":
        await admin.execute("""
            drop type moving.mood cascade;
            create type moving.mood as enum ('so-so', 'sad');
            alter table moving.values alter n type moving.mood using n::moving.mood""")
    await face.execute(text, behind)
    await face.execute(text, behind)
    last = "select n::text from moving.values order by id desc limit 2"
    assert [row[0] for row in await admin.fetch(last)] == [stored, stored]


async def test_an_argument_that_does_not_fit_is_refused_as_before(face: Face) -> None:
    text = "select $1::int4"
    await face.fetch(text, 1)
    for _ in range(2):
        with pytest.raises((onetrip.ParameterError, asyncpg.DataError, Exception)) as caught:
            await face.fetch(text, 2**40)
        assert "parameter" in str(caught.value) or "argument $1" in str(caught.value)
    assert await face.fetch(text, 2) == [(2,)]


async def test_arguments_of_a_pipeline_and_of_many_sets_are_taken_as_they_are(admin: Any) -> None:
    face = await opened(False)
    await admin.execute("create table moving.values (n int)")
    text = "insert into moving.values values ($1)"
    await face.execute(text, 1)
    await face.db.executemany(text, [(1,), (2,)])
    await admin.execute("alter table moving.values alter n type bigint")
    async with face.db.pipeline() as p:
        p.execute(text, 2**40)
        p.execute(text, 1)
    await admin.execute("alter table moving.values alter n type text")
    await face.db.executemany(text, [("x",), ("y",)])
    stored = await admin.fetch("select n from moving.values where n !~ '^[12]$' order by n")
    assert [row[0] for row in stored] == ["1099511627776", "x", "y"]
    await face.close()


def test_the_blocking_client_reads_and_stores_as_it_is() -> None:
    admin_loop = asyncio.new_event_loop()

    def ddl(text: str) -> Any:
        async def work() -> Any:
            con = await asyncpg.connect(URL)
            try:
                return await con.fetch(text) if text.startswith("select") else await con.execute(text)
            finally:
                await con.close()

        return admin_loop.run_until_complete(work())

    ddl(SETUP)
    with onetrip.blocking.connect(URL) as db:
        for _ in range(8):
            db.fetch(READ)
        insert = "insert into moving.things (id, name) values ($1, $2)"
        db.execute(insert, 5, "five")
        ddl(OF_COLUMNS["inet"])
        assert tuple(db.fetchrow(READ)) == (1, "one", "10.0.0.1")
        ddl("alter table moving.things alter id type bigint")
        db.execute(insert, 2**40, "large")
        assert ddl("select max(id) from moving.things")[0][0] == 2**40
    ddl("drop schema moving, elsewhere cascade")
    admin_loop.close()


#: Migrations of a column that COPY fills: from, a value, to, a value behind it, what is stored.
OF_COPIES = {
    "bigint to float8": ("bigint", 5, "float8", 5, "5"),
    "float8 to bigint": ("float8", 3.0, "bigint", 3, "3"),
    "int to bigint": ("int", 1, "bigint", 2**40, "1099511627776"),
    "timestamp to timestamptz": (
        "timestamp",
        datetime.datetime(2020, 1, 1),
        "timestamptz",
        datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
        "2020-01-01 00:00:00+00",
    ),
    "bigint to timestamp": (
        "bigint",
        5,
        "timestamp using null",
        datetime.datetime(2020, 1, 1),
        "2020-01-01 00:00:00",
    ),
    "float4 to int": ("float4", 1.0, "int", 1, "1"),
    "int to text": ("int", 1, "text", "x", "x"),
    "text to bytea": ("text", "x", "bytea using n::bytea", b"\xff", "\\xff"),
    "text to json": ("text", "1", "jsonb using n::jsonb", '{"a": 1}', '{"a": 1}'),
    "domain": ("moving.small", 1, "moving.large using n::bigint", 2**40, "1099511627776"),
}

DOMAINS = "create domain moving.small as int; create domain moving.large as bigint"


async def copied(face: Face, rows: Any, table: str = "filled") -> None:
    if face.drop_in:
        await face.db.copy_records_to_table(table, records=rows, schema_name="moving")
    else:
        await face.db.copy_rows(table, rows, schema="moving")


@pytest.mark.parametrize(
    ("type_", "before", "to", "behind", "stored"), OF_COPIES.values(), ids=OF_COPIES
)
async def test_rows_that_are_copied_are_stored_as_the_table_is(
    face: Face, admin: Any, type_: str, before: Any, to: str, behind: Any, stored: str
) -> None:
    await admin.execute(f"{DOMAINS}; create table moving.filled (n {type_}, k int)")
    await copied(face, [(before, 1)])
    await admin.execute(f"alter table moving.filled alter n type {to}")
    await copied(face, [(behind, 2), (behind, 3)])
    await copied(face, [(behind, 4)])
    rows = await admin.fetch("select n::text from moving.filled where k > 1 order by k")
    assert [row[0] for row in rows] == [stored] * 3


@pytest.mark.parametrize(
    ("type_", "before", "to", "behind", "stored"), OF_COPIES.values(), ids=OF_COPIES
)
async def test_rows_of_an_iterator_are_stored_as_the_table_is_or_not_at_all(
    face: Face, admin: Any, type_: str, before: Any, to: str, behind: Any, stored: str
) -> None:
    await admin.execute(f"{DOMAINS}; create table moving.filled (n {type_}, k int)")
    await copied(face, iter([(before, 1)]))
    await admin.execute(f"alter table moving.filled alter n type {to}")
    with pytest.raises(Exception) as caught:
        await copied(face, iter([(behind, 2)]))
    assert caught.value.outcome in ("NotSent", "Rejected")  # type: ignore[attr-defined]
    assert await admin.fetchval("select count(*) from moving.filled") == 1
    await copied(face, iter([(behind, 2)]))
    assert await admin.fetchval("select n::text from moving.filled where k = 2") == stored


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read"])
async def test_rows_that_a_transaction_copies_are_stored_as_the_table_is_or_not_at_all(
    face: Face, admin: Any, isolation: str
) -> None:
    await admin.execute("create table moving.filled (n bigint)")

    async def work(value: int) -> None:
        of = face.db.transaction if face.drop_in else face.db.begin
        async with of(isolation=isolation) as tx:
            within = face if face.drop_in else Face(tx, False)
            await within.fetch("select 1 from moving.things")
            if value == 5:
                await admin.execute("alter table moving.filled alter n type float8")
            await copied(within, [(value,)])

    await work(3)
    with pytest.raises(Exception, match="the columns of the table have changed: n is of type double"):
        await work(5)
    await work(7)
    assert await admin.fetch("select n from moving.filled order by n") == [(3.0,), (7.0,)]


#: From and to which type, a value that both take, and what a COPY of it is refused with.
REFUSED_COPIES = [
    ("text", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "incorrect binary data format"),
    ("int", "bigint", 7, "insufficient data left in message"),
    ("int[]", "bigint[]", [7], "binary data has array element type"),
    ("text", "jsonb", "[1]", "unsupported jsonb version number"),
]


@pytest.mark.parametrize(("of", "to", "value", "said"), REFUSED_COPIES)
async def test_a_copy_that_shows_a_change_leaves_no_error_to_other_texts(
    face: Face, admin: Any, of: str, to: str, value: Any, said: str
) -> None:
    await admin.execute(f"create table moving.filled (n {of})")
    insert, where = "insert into moving.filled values ($1)", "delete from moving.filled where n = $1"

    async def in_a_transaction(work: Any) -> None:
        async with face.db.transaction() if face.drop_in else face.db.begin() as tx:
            await work(face if face.drop_in else Face(tx, False))

    for _ in range(8):
        await in_a_transaction(lambda within: within.fetch(insert, value))
        await in_a_transaction(lambda within: within.fetch(where, value))
    await in_a_transaction(lambda within: copied(within, [(value,)]))
    await admin.execute(f"alter table moving.filled alter n type {to} using null")
    with pytest.raises(Exception, match=said):
        await in_a_transaction(lambda within: copied(within, [(value,)]))
    for text in (where, insert):
        await in_a_transaction(lambda within: within.fetch(text, value))


async def test_a_copy_into_a_table_of_any_name_is_guarded(face: Face, admin: Any) -> None:
    """Types that are built in are found before a table of their name."""
    names = ["path", "time", "Odd \"name'\\", "mood"]
    await admin.execute("set search_path = moving")
    for name in names:
        quoted = '"' + name.replace('"', '""') + '"'
        if name == "mood":
            # A type of this name is found first.
            await admin.execute("create table elsewhere.mood (\"a'\" bigint)")
            quoted = "elsewhere.mood"
        else:
            await admin.execute(f"create table moving.{quoted} (\"a'\" bigint)")

        async def work(value: int, name: str = name) -> None:
            if face.drop_in:
                await face.db.execute("set search_path = moving, elsewhere")
                await face.db.copy_records_to_table(name, records=[(value,)])
                return
            async with face.db.session() as session:
                await session.execute("set search_path = moving, elsewhere")
                await session.copy_rows(name, [(value,)])

        await work(3)
        of = quoted if "." in quoted else f"moving.{quoted}"
        await admin.execute(f"alter table {of} alter \"a'\" type float8")
        await work(5)
        assert await admin.fetch(f"select \"a'\" from {of} order by 1") == [(3.0,), (5.0,)]


async def test_a_copy_needs_no_more_than_the_right_to_insert(admin: Any) -> None:
    await admin.execute("""
        create table moving.filled (n bigint);
        drop role if exists inserts; create role inserts login;
        grant usage on schema moving to inserts; grant insert on moving.filled to inserts""")
    try:
        con = await onetrip.asyncpg.connect(URL)
        await con.execute("set role inserts")
        for _ in range(2):
            await con.copy_records_to_table("filled", records=[(1,)], schema_name="moving")
        await con.close()
        assert await admin.fetchval("select count(*) from moving.filled") == 2
    finally:
        await admin.execute("drop owned by inserts; drop role inserts")


async def test_a_guarded_copy_makes_no_more_trips_than_one_without_a_guard(
    line: Any, admin: Any
) -> None:
    await admin.execute("create table moving.filled (n bigint)")
    async with onetrip.connect(line.url, connections_max=1) as db:
        await db.copy_rows("filled", [(1,)], schema="moving")
        fewest: dict[str, int] = {}
        # A reset that leaves by itself in between is another one.
        for _ in range(10):
            _ = line.trips
            await db.copy_rows("filled", [(2,)], schema="moving")
            fewest["guarded"] = min(fewest.get("guarded", 99), line.trips)
            await db.copy_in("copy moving.filled from stdin", b"3\n")
            fewest["plain"] = min(fewest.get("plain", 99), line.trips)
        assert fewest["guarded"] == fewest["plain"]


#: What a transaction does with a table, of which each may be the first to hear of a migration.
OF_KINDS: dict[str, Callable[[Face], Awaitable[Any]]] = {
    "statement": lambda face: face.fetch("select * from moving.filled"),
    "another": lambda face: face.fetch("select k, n from moving.filled"),
    "copy": lambda face: copied(face, [(5, 1)]),
}


@pytest.mark.parametrize("kinds", list(itertools.permutations(OF_KINDS)), ids=" ".join)
async def test_a_migration_costs_transactions_of_all_kinds_one_error(
    face: Face, admin: Any, kinds: tuple[str, ...]
) -> None:
    await admin.execute("create table moving.filled (n bigint, k int)")

    async def work(kind: str) -> None:
        async with (face.db.transaction if face.drop_in else face.db.begin)() as tx:
            await OF_KINDS[kind](face if face.drop_in else Face(tx, False))

    for kind in 8 * list(OF_KINDS):
        await work(kind)
    await admin.execute("alter table moving.filled alter n type numeric")
    errors = []
    for kind in 2 * kinds:
        try:
            await work(kind)
        except Exception as error:
            errors.append(str(error))
    assert len(errors) == 1, errors
    # The drop-in says it in asyncpg's words.
    assert "have changed" in errors[0] or "cached statement plan is invalid" in errors[0]


UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"

#: What has lost its meaning once a column of texts is one of something else: what the server infers,
#: what the client has learned, and rows of a COPY.
OF_MEANINGS: dict[str, Callable[[Face], Awaitable[Any]]] = {
    "inferred": lambda face: face.execute("insert into moving.filled values ($1)", UUID),
    "learned": lambda face: face.fetch("select 1 from moving.filled where n = $1 limit 1", UUID),
    "copied": lambda face: copied(face, [(UUID,)]),
}


@pytest.mark.parametrize("kinds", list(itertools.permutations(OF_MEANINGS)), ids=" ".join)
async def test_what_one_kind_of_statement_finds_out_costs_no_other_an_error(
    face: Face, admin: Any, kinds: tuple[str, ...]
) -> None:
    await admin.execute("create table moving.filled (n text)")

    async def work(kind: str) -> None:
        async with (face.db.transaction if face.drop_in else face.db.begin)() as tx:
            await OF_MEANINGS[kind](face if face.drop_in else Face(tx, False))

    for kind in 8 * list(OF_MEANINGS):
        await work(kind)
    await admin.execute("alter table moving.filled alter n type uuid using n::uuid")
    errors = []
    for kind in 2 * kinds:
        try:
            await work(kind)
        except Exception as error:
            errors.append(f"{kind}: {error}")
    assert len(errors) <= 1, errors


async def streamed(face: Face, text: str, *args: Any) -> Rows:
    stream = face.db.cursor if face.drop_in else face.db.stream
    return [tuple(row) async for row in stream(text, *args)]


async def errors_of_transactions(
    face: Face, works: dict[str, Callable[[Face], Awaitable[Any]]], first: str, change: Any
) -> list[str]:
    """Of all works in transactions of their own, the first one first, behind what changes."""

    async def work(kind: str) -> None:
        async with (face.db.transaction if face.drop_in else face.db.begin)() as tx:
            within = face if face.drop_in else Face(tx, False)
            await within.fetch("select 1")
            await works[kind](within)

    for kind in 8 * list(works):
        await work(kind)
    await change()
    errors = []
    for kind in [first, *works, *works]:
        try:
            await work(kind)
        except Exception as error:
            errors.append(f"{kind}: {error}")
    return errors


OF_ENUM: dict[str, Callable[[Face], Awaitable[Any]]] = {
    "insert": lambda face: face.fetch("insert into moving.filled values ($1)", "sad"),
    "inferred": lambda face: face.execute("insert into moving.filled values ($1)", "sad"),
    "where": lambda face: face.fetch("select n from moving.filled where n = $1 limit 1", "sad"),
    "cast": lambda face: face.fetch("select $1::moving.mood", "sad"),
    "copied": lambda face: copied(face, [("sad",)]),
    "streamed": lambda face: streamed(face, "select n from moving.filled where n <> $1", "glad"),
}


@pytest.mark.parametrize("first", OF_ENUM)
async def test_an_enum_that_is_made_anew_costs_transactions_of_all_kinds_one_error(
    face: Face, admin: Any, first: str
) -> None:
    await admin.execute("create table moving.filled (n moving.mood)")

    async def change() -> None:
        await admin.execute("""
            alter table moving.filled alter n type text; drop type moving.mood cascade;
            create type moving.mood as enum ('new', 'glad', 'sad');
            alter table moving.filled alter n type moving.mood using n::moving.mood""")

    errors = await errors_of_transactions(face, OF_ENUM, first, change)
    assert len(errors) <= 1, errors


#: Changes of a composite of an int and a text, and a value of it then.
OF_COMPOSITE: dict[str, tuple[str, tuple[Any, ...]]] = {
    "added": ("add attribute c int cascade", (1, "x", 2)),
    "dropped": ("drop attribute b cascade", (1,)),
    "dropped and added": ("drop attribute b, add attribute b int cascade", (1, 5)),
}


@pytest.mark.parametrize("change", OF_COMPOSITE)
@pytest.mark.parametrize("first", ["insert", "returning", "where", "read", "array", "copied"])
async def test_a_composite_that_changes_costs_transactions_of_all_kinds_one_error(
    face: Face, admin: Any, change: str, first: str
) -> None:
    await admin.execute("create type moving.two as (a int, b text)")
    await admin.execute("create table moving.filled (n moving.two)")
    value: tuple[Any, ...] = (1, "x")
    some = "(select n from moving.filled limit 2) t"
    works: dict[str, Callable[[Face], Awaitable[Any]]] = {
        "insert": lambda face: face.fetch("insert into moving.filled values ($1)", value),
        "returning": lambda face: face.fetch(
            "insert into moving.filled values ($1) returning *", value
        ),
        "where": lambda face: face.fetch(f"select 1 from {some} where n = $1::moving.two", value),
        "read": lambda face: face.fetch(f"select n from {some}"),
        "array": lambda face: face.fetch(f"select array_agg(n) from {some}"),
        "copied": lambda face: copied(face, [(value,)]),
    }

    async def alter() -> None:
        nonlocal value
        await admin.execute(f"alter type moving.two {OF_COMPOSITE[change][0]}")
        value = OF_COMPOSITE[change][1]

    errors = await errors_of_transactions(face, works, first, alter)
    assert len(errors) <= 1, errors


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    "migration",
    [
        "alter table moving.things alter name type text",
        "alter table moving.things add c money default 1.5",
        "alter table moving.things add c int default 5, add d tsvector",
    ],
)
async def test_what_a_write_returns_is_read_if_it_can_be(
    face: Face, admin: Any, migration: str, many: bool
) -> None:
    """Of a text that was sent as such: the server does not say that its columns have changed."""
    await admin.execute("alter table moving.things alter name type inet using '10.0.0.1'")
    text = "insert into moving.things values ($1, '10.0.0.2') returning *"

    async def write(number: int) -> Any:
        if many:
            return plain(await face.db.fetchmany(text, [(number,)]))
        return plain(await face.fetch(text, number))

    await write(10)
    await admin.execute(migration)
    told = await write(11)
    assert told == await told_now(face, "select * from moving.things where id = $1", 11)


async def test_run_runs_a_transaction_again_whose_tables_were_altered(admin: Any) -> None:
    face = await opened(False)
    runs = 0

    async def work(tx: Any) -> Rows:
        nonlocal runs
        runs += 1
        return [tuple(row) for row in await tx.fetch(READ)]

    for _ in range(8):
        await face.db.run(work)
    await admin.execute(OF_COLUMNS["inet"])
    assert await face.db.run(work) == [(1, "one", "10.0.0.1")]
    assert runs == 10
    await face.close()


@pytest.mark.parametrize(
    ("before", "migration", "text", "values"),
    [
        pytest.param(
            "create function moving.f(bigint) returns bigint language sql as 'select $1'",
            "drop function moving.f; create function moving.f(int) returns int "
            "language sql as 'select $1'",
            "select moving.f($1)",
            (7, 7),
            id="function",
        ),
        pytest.param(
            "create table moving.kinds as select 'a' as a",
            "alter table moving.kinds alter a type bytea using a::bytea",
            "select 7 from moving.kinds where a = $1",
            ("a", b"a"),
            id="column",
        ),
    ],
)
async def test_run_runs_a_transaction_again_whose_text_has_lost_its_meaning(
    admin: Any, before: str, migration: str, text: str, values: tuple[Any, Any]
) -> None:
    face = await opened(False)
    await admin.execute(before)
    runs = 0

    async def work(tx: Any) -> Any:
        nonlocal runs
        runs += 1
        return await tx.fetchval(text, values[runs > 9])

    for _ in range(8):
        assert await face.db.run(work) == 7
    await admin.execute(migration)
    assert await face.db.run(work) == 7
    assert runs == 10
    await face.close()


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_a_result_that_is_read_in_parts_is_read_as_it_is(
    face: Face, admin: Any, migration: str, uses: int
) -> None:
    await admin.execute("insert into moving.things select n, repeat('n', 40) from generate_series(2, 1200) n")
    for _ in range(uses):
        await face.fetch(READ)
    await admin.execute(migration)
    expected = await told_now(face, READ)
    assert len(expected) == 1200
    for _ in range(2):
        assert plain(await face.fetch(READ)) == expected


@pytest.mark.parametrize("uses", USES.values(), ids=USES)
@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_rows_of_a_cursor_behind_a_migration_are_read_as_they_are(
    admin: Any, migration: str, uses: int
) -> None:
    await admin.execute("insert into moving.things select n, 'n' from generate_series(2, 12) n")

    async def read(face: Face) -> list[Rows]:
        async with face.db.transaction():
            cursor = await face.db.cursor(READ)
            fetched = [await cursor.fetch(5), await cursor.fetch(5), [await cursor.fetchrow()]]
            prefetched = [row async for row in face.db.cursor(READ, prefetch=3)]
            kept = await (await face.db.prepare(READ)).cursor()
            return [plain([*itertools.chain(*fetched)]), plain(prefetched), plain(await kept.fetch(20))]

    face, fresh = await opened(True), await opened(True)
    for _ in range(uses):
        await read(face)
    await admin.execute(migration)
    expected, errors = await read(fresh), 0
    for _ in range(3):
        try:
            assert await read(face) == expected
        except onetrip.asyncpg.InterfaceError as error:
            assert "the columns of the statement have changed" in str(error)
            errors += 1
    assert errors <= 1
    await face.close()
    await fresh.close()


@pytest.mark.parametrize("migration", OF_COLUMNS.values(), ids=OF_COLUMNS)
async def test_columns_of_arrow_behind_a_migration_are_read_as_they_are(
    admin: Any, migration: str
) -> None:
    pyarrow = pytest.importorskip("pyarrow")

    async def columns(of: Face) -> Any:
        return pyarrow.table(await of.db.fetch_arrow(READ))

    face, fresh = await opened(False), await opened(False)
    for _ in range(8):
        await columns(face)
    await admin.execute(migration)
    expected = await columns(fresh)
    for _ in range(2):
        assert (await columns(face)).equals(expected)
    await face.close()
    await fresh.close()


async def test_many_callers_behind_a_migration_all_read_what_is_there(admin: Any) -> None:
    face = Face(await onetrip.connect(URL, connections_max=3), False)
    for migration in ("inet", "text to inet", "dropped"):
        await admin.execute("drop table moving.things")
        await admin.execute(
            "create table moving.things (id int, name text); insert into moving.things values (1, null)"
        )
        await asyncio.gather(*(face.fetch(READ) for _ in range(40)))
        await admin.execute(OF_COLUMNS[migration])
        expected = await told_now(face, READ)
        for told in await asyncio.gather(*(face.fetch(READ) for _ in range(40))):
            assert plain(told) == expected
    await face.close()


async def test_another_number_of_columns_is_told_in_a_transaction_and_run_again(admin: Any) -> None:
    """Of a text that was sent as such, with a form for each of its columns."""
    await admin.execute(OF_COLUMNS["inet"])
    face = await opened(False)
    await face.fetch(READ)
    await admin.execute("alter table moving.things add d int default 5")
    with pytest.raises(onetrip.Error, match="the columns of the statement have changed"):
        async with face.db.begin() as tx:
            await tx.fetch(READ)
    await admin.execute("alter table moving.things add e int default 6")

    async def work(tx: Any) -> Rows:
        return [tuple(row) for row in await tx.fetch(READ)]

    assert await face.db.run(work) == [(1, "one", "10.0.0.1", 5, 6)]
    await face.close()


#: What migrates in front of each message that leaves, from the first with the values on.
BETWEEN = {
    "twice": ["add c int default 3", None, "add d int default 4"],
    "and back": ["add c int default 3", "drop c"],
}


@pytest.mark.parametrize("changes", BETWEEN.values(), ids=BETWEEN.keys())
async def test_a_write_that_was_refused_for_its_columns_runs_though_they_change_once_more(
    admin: Any, changes: list[str | None]
) -> None:
    server, left = urlsplit(URL), iter(changes)
    has_begun = False

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(server.hostname, server.port)

        async def send() -> None:
            nonlocal has_begun
            while data := await reader.read(65_536):
                has_begun = has_begun or b"needle" in data
                if has_begun and (change := next(left, None)):
                    await admin.execute(f"alter table moving.things {change}")
                there[1].write(data)
            there[1].close()

        async def receive() -> None:
            while data := await there[0].read(65_536):
                writer.write(data)
            writer.close()

        await asyncio.gather(send(), receive())

    insert = "insert into moving.things (id, name) values ($1, $2) returning *"
    async with await asyncio.start_server(relay, "127.0.0.1", 0) as relayed:
        port = relayed.sockets[0].getsockname()[1]
        url = URL.replace(f":{server.port}", f":{port}")
        async with onetrip.connect(url, connections_max=1) as db:
            for i in (2, 3):
                assert await db.fetchrow(insert, i, "hay") == (i, "hay")
            row = await db.fetchrow(insert, 4, "needle")
    assert next(left, "none") == "none"
    assert row is not None and tuple(row) == tuple(
        await admin.fetchrow("select * from moving.things where name = 'needle'")
    )


async def test_a_statement_is_looked_at_again_though_others_are_to_be_closed(admin: Any) -> None:
    """Those of a session with a path of its own are closed behind it, with what is sent next."""
    texts = "create schema if not exists paths; drop type if exists paths.mood cascade;"
    await admin.execute(texts + "create type paths.mood as enum ('a', 'b')")
    await admin.execute("create table if not exists paths.said (id int, c paths.mood)")
    insert = "insert into said (id, c) values ($1, $2)"
    others = ["select $1::mood as e", "select id, c from said where c = $1::mood and id < 0"]
    pool = await onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1)
    async with pool.acquire() as connection:
        await connection.execute("set search_path = paths")
        for _ in range(7):
            await connection.fetch(insert, 1, "a")
            for text in others:
                await connection.fetch(text, "a")
            await connection.fetch("select * from said where id < 0")
    async with pool.acquire() as connection:
        await connection.execute("set search_path = paths")
        for value in ("a", None, "b"):
            await connection.fetch(insert, 1, value)
        with pytest.raises(onetrip.asyncpg.PostgresError):
            await connection.fetch(insert, 1, "c")
        assert not connection.is_closed()
        assert await connection.fetchval("select 1") == 1
    await pool.close()
    await admin.execute("drop schema paths cascade")


UTC = datetime.timezone.utc
PLUS_5 = datetime.timezone(datetime.timedelta(hours=5))
NOON = datetime.datetime(2020, 1, 1, 12, 30)
UPPER = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"

#: The type of a column before and after, a value for it, and one that is stored then, as its text.
PARAMETERS = [
    ("float4", "float8", 0.5, 0.1, "0.1"),
    ("float4", "numeric", 0.5, 0.12345678901234567, "0.12345678901234566"),
    ("float8", "numeric", 0.5, 0.1 + 0.2, "0.30000000000000004"),
    ("float8[]", "numeric[]", [0.5], [0.1 + 0.2], "{0.30000000000000004}"),
    ("float8", "numeric", 0.5, decimal.Decimal("1.50"), "1.50"),
    ("float4", "numeric", 0.5, decimal.Decimal("1.50"), "1.50"),
    ("float8", "numeric", 0.5, 2**53 + 1, "9007199254740993"),
    ("float8", "numeric", 0.5, 2**60, "1152921504606846976"),
    ("float4", "int8", 0.5, 2**24 + 1, "16777217"),
    ("numeric", "float8", 1, -0.0, "-0"),
    ("numeric", "text", 1, "1e2", "1e2"),
    ("uuid", "text", UPPER.lower(), UPPER, UPPER),
    ("date", "timestamp", NOON.date(), NOON, "2020-01-01 12:30:00"),
    ("date", "timestamptz", NOON.date(), NOON.replace(tzinfo=PLUS_5), "2020-01-01 07:30:00+00"),
    ("timestamptz", "text", NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=PLUS_5), "2020-01-01 07:30:00+00"),
    ("jsonb", "text", "1", '{"a":1}', '{"a":1}'),
    ("int", "bigint", 7, 3_000_000_000, "3000000000"),
    ("int", "text", 7, "007", "007"),
    ("inet", "text", "10.0.0.1", "1.2.3.4", "1.2.3.4"),
    ("inet", "text", "10.0.0.1", "::0001", "::0001"),
    ("cidr", "text", "10.0.0.0/8", "1.2.3.4", "1.2.3.4"),
    ("uuid[]", "text[]", [UPPER.lower()], [UPPER, None], f"{{{UPPER},NULL}}"),
    ("numeric[]", "text[]", [1], [["1e2", 2]], "{{1e2,2}}"),
    ("date[]", "timestamp[]", [NOON.date()], [NOON], '{"2020-01-01 12:30:00"}'),
    ("float8[]", "numeric[]", [0.5], [decimal.Decimal("1.50"), 0.1], "{1.50,0.1}"),
    ("float8[]", "numeric[]", [0.5], [2**53 + 1, 1], "{9007199254740993,1}"),
    ("inet[]", "text[]", ["10.0.0.1"], ["1.2.3.4"], "{1.2.3.4}"),
    ("daterange", "tsrange", onetrip.Range(NOON.date(), None), onetrip.Range(NOON, None), '["2020-01-01 12:30:00",)'),
]


@pytest.mark.parametrize("is_asyncpg", [False, True])
@pytest.mark.parametrize("row", PARAMETERS)
async def test_a_value_is_stored_as_what_its_column_is_now(
    admin: Any, row: tuple[Any, ...], is_asyncpg: bool
) -> None:
    of, to, before, value, stored = row
    pool = onetrip.asyncpg.create_pool(URL, min_size=1, max_size=2)
    db: Any = await (pool if is_asyncpg else onetrip.connect(URL))
    await admin.execute(f"drop table if exists moving.values; create table moving.values (a {of})")
    insert = "insert into moving.values values ($1)"
    for _ in range(8):
        await db.execute(insert, before)
    change = f"truncate moving.values; alter table moving.values alter a type {to} using null"
    await admin.execute(change)
    if is_asyncpg and isinstance(value, str) and to == "text" and of == "int":
        value, stored = 8, "8"
    await db.execute(insert, value)
    await admin.execute("set timezone = 'UTC'")
    assert await admin.fetchval("select a::text from moving.values") == stored
    await db.close()


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("of", ["timestamp", "timestamptz"])
async def test_a_moment_is_compared_with_a_column_that_is_a_date_now(
    face: Face, admin: Any, of: str, arrays: bool
) -> None:
    await admin.execute(f"set timezone = 'UTC'; create table moving.values (a {of})")
    moment = NOON.replace(tzinfo=UTC) if of == "timestamptz" else NOON
    value = [moment] if arrays else moment
    delete = f"delete from moving.values where a = {'any($1)' if arrays else '$1'} returning 1"
    for _ in range(8):
        await admin.execute("insert into moving.values values ('2020-01-01 12:30')")
        assert await face.fetch(delete, value) == [(1,)]
    await admin.execute("alter table moving.values alter a type date")
    await admin.execute("insert into moving.values values ('2020-01-01')")
    assert await face.fetch(delete, value) == [(1,)]


#: Late in the evening, and in UTC the midnight or the small hours of the next day.
EVENING = datetime.datetime(2020, 12, 31, 22, tzinfo=datetime.timezone(-datetime.timedelta(hours=2)))
NIGHT = datetime.datetime(2020, 12, 31, 22, tzinfo=datetime.timezone(-datetime.timedelta(hours=5)))


@pytest.mark.parametrize("arrays", [False, True])
@pytest.mark.parametrize("moment", [EVENING, NIGHT])
async def test_a_moment_is_of_the_day_of_its_own_zone_where_its_column_is_a_date_now(
    face: Face, admin: Any, moment: datetime.datetime, arrays: bool
) -> None:
    await admin.execute("set timezone = 'UTC'; create table moving.values (a timestamptz)")
    before = NOON.replace(tzinfo=UTC)
    delete = f"delete from moving.values where a = {'any($1)' if arrays else '$1'} returning a::text"
    insert = "insert into moving.values values ($1)"
    write = "insert into moving.values select unnest($1::timestamptz[])" if arrays else insert
    of = (lambda it: [it]) if arrays else (lambda it: it)
    for _ in range(8):
        await face.fetch(delete, of(before))
        await face.execute(write, of(before))
        await face.db.executemany(insert, [(before,), (before,)])
    await admin.execute("truncate moving.values; alter table moving.values alter a type date")
    await admin.execute("insert into moving.values values ('2020-12-31'), ('2021-01-01')")
    assert await face.fetch(delete, of(moment)) == [("2020-12-31",)]
    await admin.execute("truncate moving.values")
    await face.db.executemany(insert, [(moment,), (moment,)])
    if not arrays:
        await face.execute(insert, moment)
    days = {row[0] for row in await admin.fetch("select a::text from moving.values")}
    assert days == {"2020-12-31"}


async def test_sets_of_one_call_are_each_stored_as_what_their_column_is_now(
    face: Face, admin: Any
) -> None:
    await admin.execute("set timezone = 'UTC'; create table moving.values (a date)")
    day, insert = NOON.date(), "insert into moving.values values ($1)"
    for _ in range(8):
        await face.db.executemany(insert, [(day,), (day,)])
    await admin.execute("truncate moving.values; alter table moving.values alter a type timestamp")
    await face.db.executemany(insert, [(day,), (NOON,)])
    stored = {row[0] for row in await admin.fetch("select a::text from moving.values")}
    assert stored == {"2020-01-01 00:00:00", "2020-01-01 12:30:00"}


async def test_a_text_beside_numbers_of_one_call_is_stored_as_it_is(admin: Any) -> None:
    await admin.execute("create table moving.values (a int)")
    insert = "insert into moving.values values ($1)"
    async with onetrip.connect(URL) as db:
        for _ in range(8):
            await db.executemany(insert, [(7,), (8,)])
        await admin.execute("truncate moving.values; alter table moving.values alter a type text")
        await db.executemany(insert, [(7,), ("007",)])
    stored = {row[0] for row in await admin.fetch("select a from moving.values")}
    assert stored == {"7", "007"}


@pytest.mark.parametrize("arrays", [False, True])
async def test_a_text_is_compared_as_the_column_compares_now(
    face: Face, admin: Any, arrays: bool
) -> None:
    await admin.execute("create table moving.values (a char(6)); create table moving.others (a text)")
    of = (lambda it: [it]) if arrays else (lambda it: it)
    equals = "any($1)" if arrays else "$1"
    padded = f"select count(*) from moving.values where a = {equals}"
    plain = f"select count(*) from moving.others where a = {equals}"
    for _ in range(8):
        await face.fetch(padded, of("42"))
        await face.fetch(plain, of("42"))
    await admin.execute("alter table moving.values alter a type varchar(6)")
    await admin.execute("alter table moving.others alter a type char(6)")
    await admin.execute("insert into moving.values values ('42'), ('42 ')")
    await admin.execute("insert into moving.others values ('42')")
    assert await face.fetch(padded, of("42")) == [(1,)]
    assert await face.fetch(plain, of("42 ")) == [(1,)]


async def test_what_has_lost_its_meaning_in_a_transaction_costs_one_error(
    face: Face, admin: Any
) -> None:
    await admin.execute("create table moving.values (a int[])")
    texts = [
        "select 1 from moving.values where a = $1",
        "select 2 from moving.values where a < $1",
        "delete from moving.values where a = $1",
    ]

    async def in_a_transaction(query: str) -> None:
        async with face.db.transaction() if face.drop_in else face.db.begin() as tx:
            await (face.db if face.drop_in else tx).execute(query, [7])

    for text in texts * 8:
        await in_a_transaction(text)
    await admin.execute("alter table moving.values alter a type bigint[]")
    with pytest.raises(Exception, match="operator does not exist"):
        await in_a_transaction(texts[0])
    for text in texts[1:] + texts[:1]:
        await in_a_transaction(text)


async def test_a_composite_whose_attributes_have_changed_costs_no_error_of_the_server(
    face: Face, admin: Any
) -> None:
    await admin.execute("create type moving.two as (a int, b text)")
    await admin.execute("create table moving.values (p moving.two)")
    insert = "insert into moving.values values ($1)"
    for _ in range(8):
        await face.db.execute(insert, (1, "x"))
    await admin.execute("alter type moving.two add attribute c int cascade")
    with pytest.raises(Exception, match="it has 2 fields, and the type 3"):
        await face.db.execute(insert, (1, "x"))
    await face.db.execute(insert, (1, "x", 2))


async def test_a_pipeline_whose_composite_has_changed_says_so_and_does_nothing(admin: Any) -> None:
    await admin.execute("create type moving.two as (a int, b text)")
    await admin.execute("create table moving.values (p moving.two)")
    await admin.execute("insert into moving.values values ((1, 'x'))")
    async with await onetrip.connect(URL) as db:
        select = "select p from moving.values"
        for _ in range(8):
            assert (await db.fetchval(select))["b"] == "x"
        await admin.execute("alter type moving.two add attribute c int cascade")

        async def altered(attribute: str) -> Any:
            async with asyncio.timeout(600), db.pipeline() as pipeline:
                value = pipeline.fetchval(select)
                pipeline.execute(f"alter type moving.two add attribute {attribute} int cascade")
            return await value

        with pytest.raises(onetrip.Error, match="attributes of a type have changed") as told:
            await altered("d")
        assert told.value.outcome == "Rejected"
        assert dict((await altered("d")).items()) == {"a": 1, "b": "x", "c": None}
        assert (await db.fetchval(select))["d"] is None


#: What gives the attributes of a composite other places, and keeps their types.
REORDERED = {
    "renamed": ["rename attribute a to x", "rename attribute b to a", "rename attribute x to b"],
    "dropped and added": ["drop attribute a cascade", "add attribute a text cascade"],
}

#: How a dict stands in the values of a statement: the type of the column, and what is stored.
NAMED_IN = {
    "itself": ("moving.two", lambda it: it, "(a).a || (a).b"),
    "a list": ("moving.two[]", lambda it: [it], "(a[1]).a || (a[1]).b"),
    "a tuple": ("moving.outer", lambda it: (1, it), "((a).two).a || ((a).two).b"),
    "a dict": ("moving.outer", lambda it: {"n": 1, "two": it}, "((a).two).a || ((a).two).b"),
}


@pytest.mark.parametrize(("face", "way"), in_each_face(["execute", "fetch", "begin", "many", "pipeline", "stream"]), indirect=["face"])
@pytest.mark.parametrize("inside", NAMED_IN.values(), ids=NAMED_IN)
@pytest.mark.parametrize("migration", REORDERED.values(), ids=REORDERED)
async def test_a_dict_is_stored_by_the_names_that_the_attributes_have_now(
    face: Face, admin: Any, migration: list[str], inside: Any, way: str
) -> None:
    of, wrap, read = inside
    await admin.execute("create type moving.two as (a text, b text)")
    await admin.execute("create type moving.outer as (n int, two moving.two)")
    await admin.execute(f"create table moving.values (a {of})")
    insert = "insert into moving.values values ($1)"
    value = wrap({"a": "a", "b": "b"})

    async def store() -> None:
        match way:
            case "execute":
                assert str(await face.db.execute(insert, value)) == "INSERT 0 1"
            case "fetch":
                assert await face.fetch(f"{insert} returning 7", value) == [(7,)]
            case "begin":
                async with face.db.transaction() if face.drop_in else face.db.begin() as tx:
                    db = face.db if face.drop_in else tx
                    assert str(await db.execute(insert, value)) == "INSERT 0 1"
            case "many":
                await face.db.executemany(insert, [(value,), (None,), (value,)])
            case "pipeline":
                async with face.db.pipeline() as pipeline:
                    pipeline.execute(insert, value)
                    seven = pipeline.fetchval("select 7")
                assert await seven == 7
            case "stream":
                async with aclosing(face.db.stream(f"{insert} returning 7", value)) as rows:
                    assert [tuple(row) async for row in rows] == [(7,)]

    for _ in range(8):
        await store()
    await admin.execute("truncate moving.values")
    await admin.execute(";".join(f"alter type moving.two {what}" for what in migration))
    failures = 0
    for _ in range(3):
        try:
            await store()
        except Exception as error:
            failures += 1
            assert "attributes of a type have changed" in str(error)
    assert failures <= (way not in ("execute", "fetch", "many"))
    stored = await admin.fetch(f"select {read} as it from moving.values where a is not null")
    assert {row["it"] for row in stored} == {"ab"}
    assert len(stored) == (3 - failures) * (2 if way == "many" else 1)


async def test_a_dict_makes_no_more_trips_than_a_tuple(line: Any, admin: Any) -> None:
    await admin.execute("create type moving.two as (a text, b text)")
    await admin.execute("create table moving.values (a moving.two)")
    insert = "insert into moving.values values ($1)"
    values = {"dict": {"a": "a", "b": "b"}, "tuple": ("a", "b")}
    async with onetrip.connect(line.url, connections_max=1) as db:
        fewest: dict[str, int] = {}
        # A reset that leaves by itself in between is another one.
        for _ in range(10):
            for name, value in values.items():
                _ = line.trips
                await db.execute(insert, value)
                fewest[name] = min(fewest.get(name, 99), line.trips)
        assert fewest["dict"] == fewest["tuple"]


async def test_what_a_domain_refused_is_stored_once_its_column_has_left_it(
    face: Face, admin: Any
) -> None:
    await admin.execute("create domain moving.small as int check (value < 10)")
    await admin.execute("create table moving.values (a moving.small)")
    insert = "insert into moving.values values ($1)"
    for _ in range(8):
        await face.execute(insert, 7)
    with pytest.raises(Exception, match="violates check constraint"):
        await face.execute(insert, 70)
    for _ in range(8):
        await face.execute(insert, 7)
    await admin.execute("truncate moving.values; alter table moving.values alter a type int")
    await face.execute(insert, 70)
    assert await admin.fetchval("select a from moving.values") == 70


async def test_an_address_is_stored_without_a_mask_where_its_column_is_a_text_now(
    admin: Any,
) -> None:
    await admin.execute("create table moving.values (a inet, b inet[])")
    insert = "insert into moving.values values ($1, $2)"
    four, six = ipaddress.ip_address("1.2.3.4"), ipaddress.ip_address("::1")
    db = await onetrip.asyncpg.connect(URL)
    for _ in range(8):
        await db.execute(insert, four, [four, six])
    assert await db.fetchrow("select * from moving.values limit 1") is not None
    await admin.execute(
        "truncate moving.values; alter table moving.values alter a type text, alter b type text[]"
    )
    await db.execute(insert, four, [four, six])
    row = await admin.fetchrow("select * from moving.values")
    assert tuple(row) == ("1.2.3.4", ["1.2.3.4", "::1"])
    await db.close()


@pytest.mark.parametrize(("face", "way"), in_each_face(["fetch", "begin", "returning", "many", "pipeline", "stream"]), indirect=["face"])
@pytest.mark.parametrize("of", ["moving.two", "moving.two[]", "moving.outer"])
@pytest.mark.parametrize("migration", [REORDERED["renamed"], ["rename attribute a to c"]])
async def test_a_composite_is_read_by_the_names_that_its_attributes_have_now(
    face: Face, admin: Any, migration: list[str], of: str, way: str
) -> None:
    await admin.execute("create type moving.two as (a text, b text)")
    await admin.execute("create type moving.outer as (two moving.two)")
    await admin.execute(f"create table moving.values (k int, a {of})")
    made = {"moving.two": "it", "moving.two[]": "array[it]", "moving.outer": "row(it)::moving.outer"}
    value = made[of].replace("it", "('1', '2')::moving.two")
    await admin.execute(f"insert into moving.values values (1, {value})")
    read = "select a from moving.values where k = $1"

    async def names() -> Any:
        match way:
            case "fetch":
                rows = await face.fetch(read, 1)
            case "returning":
                rows = await face.fetch("update moving.values set k = $1 returning a", 1)
            case "begin":
                async with face.db.transaction() if face.drop_in else face.db.begin() as tx:
                    rows = [tuple(it) for it in await (face.db if face.drop_in else tx).fetch(read, 1)]
            case "many":
                rows = [tuple(it) for it in await face.db.fetchmany(read, [(1,)])]
            case "pipeline":
                async with face.db.pipeline() as pipeline:
                    row = pipeline.fetchrow(read, 1)
                rows = [tuple(await row)]  # type: ignore
            case "stream":
                async with aclosing(face.db.stream(read, 1)) as stream:
                    rows = [tuple(it) async for it in stream]
        it = rows[0][0]
        it = it[0] if of.endswith("[]") else it["two"] if "outer" in of else it
        return dict(it.items())

    for _ in range(8):
        assert await names() == {"a": "1", "b": "2"}
    await admin.execute(";".join(f"alter type moving.two {what}" for what in migration))
    told, failures = [], 0
    for _ in range(3):
        try:
            told.append(await names())
        except Exception as error:
            failures += 1
            assert "attributes of a type have changed" in str(error)
    now = {"c": "1", "b": "2"} if len(migration) == 1 else {"b": "1", "a": "2"}
    assert told == [now] * (3 - failures)
    assert failures <= (way in ("begin", "pipeline", "stream"))
