// The states that can be left in a session, and the texts that leave them. `chaos_do` in world.sql
// has the same names.

type Below = (limit: number) => number

const OPEN: Record<string, (key: number) => string> = {
  path: () => 'set search_path = stray, public',
  role: () => 'set role chaos_guest',
  auth: () => 'set session authorization chaos_guest',
  timeout: (key) => `set statement_timeout = ${1 + (key % 20)}`,
  lock_timeout: () => 'set lock_timeout = 7',
  readonly: () => 'set default_transaction_read_only = on',
  level: () => "set default_transaction_isolation = 'serializable'",
  zone: () => "set timezone = 'Asia/Tokyo'",
  setting: (key) => `set chaos.owner = '${key}'`,
  temp: () => 'create temp table entry (like public.entry including all)',
  lock: (key) => `select pg_advisory_lock(${key})`,
  name: () => 'prepare chaos_name as select 1',
  channel: () => 'listen chaos_channel',
  cursor: () => 'declare chaos_cursor cursor with hold for select 1',
}

const HIDDEN: ((state: string, key: number) => string)[] = [
  (state, key) => `select public.chaos_do('${state}', ${key})`,
  (state) => `select public.chaos_sql('${state}')`,
  (state, key) => `do $$ begin perform public.chaos_do('${state}', ${key}); end $$`,
  (state) => `call public.chaos_call('${state}')`,
  (state) => `select n from public.chaos_view_${state}`,
  (state) => `insert into public.chaos_trap values ('${state}')`,
  (state) => `insert into public.chaos_default_${state} (n) values (1)`,
  (state) => `select '${state}'::text operator(public.##) 1`,
  (state) => `select '${state}'::public.chaos_domain`,
  (state) => `insert into public.chaos_ruled values ('${state}')`,
  (state) => `select public.chaos_all('${state}'::text)`,
  (state) => `insert into public.chaos_indexed values ('${state}')`,
]

/** The states to choose from. Those that can lose rows are listed several times. */
const STATES = [...Object.keys(OPEN), 'temp', 'temp', 'temp', 'temp', 'path', 'path']

/** A state of a session, and the text that leaves it. */
export interface State {
  readonly name: string
  readonly text: string
  readonly hidden: boolean
}

export function anyState(below: Below): State {
  const name = STATES[below(STATES.length)] as string
  const key = below(1 << 30)
  const hidden = HIDDEN[below(HIDDEN.length * 2)]
  const text = hidden ? hidden(name, key) : (OPEN[name] as (key: number) => string)(key)
  return { name, text, hidden: hidden !== undefined }
}
