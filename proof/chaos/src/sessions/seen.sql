concat_ws('|', current_setting('search_path'), current_user, session_user,
    current_setting('statement_timeout'), current_setting('lock_timeout'),
    current_setting('default_transaction_read_only'), current_setting('default_transaction_isolation'),
    current_setting('TimeZone'), 'owner ' || coalesce(current_setting('chaos.owner', true), ''),
    'locks ' || (select count(*) from pg_catalog.pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
    'temporary ' || (select count(*) from pg_catalog.pg_class where relnamespace = pg_my_temp_schema()),
    'channels ' || (select count(*) from pg_listening_channels()),
    'names ' || (select count(*) from pg_catalog.pg_prepared_statements where from_sql),
    'cursors ' || (select count(*) from pg_catalog.pg_cursors where is_holdable))
