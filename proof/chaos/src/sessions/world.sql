-- The world of chaos with sessions: the same for Rust and for Node.

-- What a statement sees of its session.
create function public.chaos_seen() returns text language sql volatile as $$ select :seen $$;

-- Each write is a row. Nothing is unique, so that a row that is doubled shows.
create table public.entry (
    n bigint not null,
    own bool not null default false,
    fine bool not null default true check (fine),
    counted bool not null default false,
    seen text not null default public.chaos_seen()
);
create schema stray;
create table stray.entry (like public.entry including all);
create table public.counter (id int primary key, v bigint not null);
insert into public.counter select id, 0 from generate_series(0, 3) as id;

-- Roles are the whole server's, where others may have theirs.
do $$ begin create role chaos_guest;
exception when duplicate_object or unique_violation then null; end $$;
grant all on schema public, stray to chaos_guest;

-- What leaves a state behind, though its call does not show it.
create function public.chaos_do(state text, key bigint) returns int language plpgsql as $$
begin
    case state
        when 'path' then perform set_config('search_path', 'stray, public', false);
        when 'role' then set role chaos_guest;
        when 'auth' then set session authorization chaos_guest;
        when 'timeout' then perform set_config('statement_timeout', (1 + key % 20)::text, false);
        when 'lock_timeout' then set lock_timeout = 7;
        when 'readonly' then set default_transaction_read_only = on;
        when 'level' then set default_transaction_isolation = 'serializable';
        when 'zone' then set timezone = 'Asia/Tokyo';
        when 'setting' then perform set_config('chaos.owner', key::text, false);
        when 'temp' then create temp table if not exists entry (like public.entry including all);
        when 'lock' then perform pg_advisory_lock(key);
        when 'name' then execute 'prepare chaos_name as select 1';
        when 'channel' then listen chaos_channel;
        when 'cursor' then execute 'declare chaos_cursor cursor with hold for select 1';
    end case;
    return 1;
end $$;

create function public.chaos_hidden(state text) returns int language plpgsql as
    $$ begin return public.chaos_do(state, pg_backend_pid()); end $$;
create function public.chaos_sql(state text) returns int language sql as
    $$ select public.chaos_hidden(state) $$;
create procedure public.chaos_call(state text) language plpgsql as
    $$ begin perform public.chaos_hidden(state); end $$;
create function public.chaos_lie(state text) returns int language plpgsql immutable as
    $$ begin return public.chaos_hidden(state); end $$;
create function public.chaos_trigger() returns trigger language plpgsql as
    $$ begin perform public.chaos_hidden(new.state); return new; end $$;
create function public.chaos_two(state text, other int) returns int language sql as
    $$ select public.chaos_hidden(state) $$;
create function public.chaos_add(sum int, state text) returns int language sql as
    $$ select public.chaos_hidden(state) $$;

create operator public.## (function = public.chaos_two, leftarg = text, rightarg = int);
create aggregate public.chaos_all (text) (sfunc = public.chaos_add, stype = int);
create domain public.chaos_domain as text check (public.chaos_hidden(value) = 1);
create table public.chaos_trap (state text);
create trigger trap before insert on public.chaos_trap
    for each row execute function public.chaos_trigger();
create table public.chaos_ruled (state text);
create rule chaos_rule as on insert to public.chaos_ruled
    do also select public.chaos_hidden(new.state);
create table public.chaos_indexed (state text);
create index on public.chaos_indexed (public.chaos_lie(state));

do $$
declare state text;
begin
    foreach state in array array['path', 'role', 'auth', 'timeout', 'lock_timeout', 'readonly', 'level',
        'zone', 'setting', 'temp', 'lock', 'name', 'channel', 'cursor'] loop
        execute format('create view public.chaos_view_%s as select public.chaos_hidden(%L) as n', state, state);
        execute format('create table public.chaos_default_%s (n int, m int default public.chaos_hidden(%L))', state, state);
    end loop;
end $$;
grant all on all tables in schema public, stray to chaos_guest;
