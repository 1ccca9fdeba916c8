// Reads of the modern face on the replicas of a primary. The URL names the primary first. `way` is `guarded`, `stale`,
// or `alone`: the primary alone.
'use strict'

function over({ postgres }, version, way) {
  async function open(url, { connections: connectionsMax }) {
    const [, login, hosts, database] = /^(.*@)([^/]*)(\/[^?]*)/.exec(url)
    const of = (host) => `${login}${host}${database}`
    const servers = hosts.split(',')
    const sql = postgres({ url: way === 'alone' ? of(servers[0]) : url, connectionsMax })
    const standbys = servers.slice(1).map((host) => postgres({ url: of(host), connectionsMax: 1 }))
    const reads = way === 'alone' ? sql : sql.reads()
    return {
      /** Waits until all servers serve reads. */
      async served() {
        const seen = new Set()
        while (way !== 'alone' && seen.size < servers.length - 1) {
          const port = sql.reads().stale()`select inet_server_port() as port where to_regclass('hot') is not null`
          for (const row of await port) if (row.port !== Number(servers[0].split(':')[1])) seen.add(row.port)
        }
      },
      slow: () => reads`select 1 from pg_sleep(0.005)`,
      /** Point reads at once behind a write that both standbys have replayed. */
      async behind(id, ids) {
        await sql`update hot set n = id where id = ${id}`
        const [{ lsn }] = await sql`select pg_current_wal_lsn()::text as lsn`
        for (const standby of standbys) await replayed(standby, lsn)
        const position = await sql.position()
        const place = way === 'stale' ? sql.reads().stale() : sql.reads().after(position)
        const rows = await Promise.all(ids.map((id) => place`select n from hot where id = ${id}`))
        return rows.map(([row]) => row.n)
      },
      write: (task, n) => sql`update own set n = ${n} where task = ${task}`,
      position: () => sql.position(),
      own: (task) => newest(reads, task),
      after: (position, task) => newest(sql.reads().after(position), task),
      isReplica: (port) => port !== Number(servers[0].split(':')[1]),
      async close() {
        await Promise.all([sql, ...standbys].map((it) => it.end()))
      },
    }
  }
  return { open, version }
}

async function replayed(standby, lsn) {
  for (;;) {
    const [{ is }] = await standby`select pg_last_wal_replay_lsn() >= ${lsn}::text::pg_lsn as is`
    if (is) return
  }
}

/** What a task wrote last, as the server of this port shows it. */
async function newest(reads, task) {
  const [row] = await reads`select n, inet_server_port() as port from own where task = ${task}`
  return row
}

module.exports = { over }
