// pg, and the drop-in for it: the same calls, on either.
'use strict'

/** `named`: statements have names, so that they are prepared; without, the drop-in prepares by itself. */
function over(pg, version) {
  async function open(connectionString, { connections, pipeline, named, work }) {
    // Longer than others have their turns: what idle clients cost to connect anew is not measured.
    const config = { connectionString, pipeline, idleTimeoutMillis: 60_000 }
    // The rate beside slow neighbours is compared with that of a pool of one.
    const isPool = connections > 1 || work === 'neighbours_busy_alone'
    const on = isPool ? new pg.Pool({ ...config, max: connections }) : new pg.Client(config)
    if (!isPool) await on.connect()
    return client(on, named)
  }
  return { open, version }
}

function client(on, named) {
  const query = named
    ? (name, text, values) => on.query({ name, text, values })
    : (name, text, values) => on.query(text, values)
  return {
    async value(number) {
      const { rows } = await query('value', 'select $1::int as value', [number])
      return rows[0].value
    },
    async item(id) {
      const { rows } = await query('item', ITEM, [id])
      return rows[0]
    },
    async moment(id, at) {
      const { rows } = await query('moment', MOMENT, [id, at])
      return rows[0]
    },
    async items(count) {
      const { rows } = await on.query(`${ITEMS} limit ${count}`)
      return rows
    },
    /** All of them at once. */
    async values(numbers) {
      const results = await Promise.all(
        numbers.map((number) => query('value', 'select $1::int as value', [number])),
      )
      return results.map((it) => it.rows[0].value)
    },
    update: (id) => query('update', 'update counter set n = n + 1 where id = $1', [id]),
    updateLocked: () => query('lock', LOCK, [1]),
    /** A transaction that updates a row, and a read of another beside it. */
    async lockAndRead() {
      const own = await on.connect()
      await own.query('begin')
      await own.query(named ? { name: 'lock', text: LOCK, values: [1] } : { text: LOCK, values: [1] })
      await query('beside', 'select n from locked where id = $1', [7])
      await own.query('commit')
      own.release()
    },
    text: (text, sleep) => query(text, text, [sleep]),
    query: (config) => on.query(config),
    close: () => on.end(),
  }
}

const ITEMS = 'select id, big, name, at, ok, price from node_item'
const MOMENT = `update node_moment set at = $2 where id = $1
  returning id, extract(epoch from at - timestamp '2024-01-01')::int as seconds`
const LOCK = 'update locked set n = n + 1 where id = $1'
const ITEM = `${ITEMS} where id = $1`

module.exports = { over }
