// postgres.js, which pipelines and prepares by default.
'use strict'

const postgres = require('postgres')

function over(version) {
  async function open(url, { connections }) {
    const sql = postgres(url, { max: connections, onnotice() {} })
    await sql`select 1`
    return {
      async value(number) {
        const rows = await sql`select ${number}::int as value`
        return rows[0].value
      },
      async item(id) {
        const rows = await sql`select id, big, name, at, ok, price from node_item where id = ${id}`
        return rows[0]
      },
      async moment(id, at) {
        const rows = await sql`update node_moment set at = ${at} where id = ${id}
          returning id, extract(epoch from at - timestamp '2024-01-01')::int as seconds`
        return rows[0]
      },
      items: (count) => sql.unsafe(`select id, big, name, at, ok, price from node_item limit ${count}`),
      close: () => sql.end(),
    }
  }
  return { open, version }
}

module.exports = { over }
