// The modern face of onetrip.
'use strict'

function over({ postgres }, version) {
  async function open(url, { connections }) {
    const sql = postgres({ url, connectionsMax: connections })
    await sql`select 1`
    const templates = new Map()
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
      update: (id) => sql`update counter set n = n + 1 where id = ${id}`,
      updateLocked: () => sql`update locked set n = n + 1 where id = ${1}`,
      /** A transaction that updates a row, and a read of another beside it. */
      lockAndRead: () =>
        sql.begin(async (tx) => {
          await tx`update locked set n = n + 1 where id = ${1}`
          await sql`select n from locked where id = ${7}`
        }),
      /** A text whose every `$1` is this: as a template, which only the language makes. */
      text(text, value) {
        const made = templates.get(text) ?? asTemplate(text)
        templates.set(text, made)
        return made(sql, value)
      },
      items: (count) => sql`select id, big, name, at, ok, price from node_item limit ${count}`,
      /** All of them in one pipeline, with one Sync. */
      async values(numbers) {
        const results = await sql.pipeline(
          numbers.map((number) => sql`select ${number}::int as value`),
        )
        return results.map((rows) => rows[0].value)
      },
      close: () => sql.end(),
    }
  }
  return { open, version }
}

function asTemplate(text) {
  return new Function('sql', 'value', `return sql\`${text.replaceAll('$1', '${value}')}\``)
}

module.exports = { over }
