// Kysely as its documentation has it for pg, on a pool of either.
'use strict'

const { Kysely, PostgresDialect } = require('kysely')

function over(pg, version) {
  async function open(connectionString) {
    const pool = new pg.Pool({ connectionString, max: 1 })
    const db = new Kysely({ dialect: new PostgresDialect({ pool }) })
    return {
      transaction: (id) =>
        db.transaction().execute(async (tx) => {
          const from = tx.selectFrom('account').selectAll().where('id', '=', id).forUpdate()
          const found = await from.executeTakeFirstOrThrow()
          const result = await tx
            .updateTable('account')
            .set((the) => ({ balance: the('balance', '+', '1') }))
            .where('id', '=', found.id)
            .executeTakeFirst()
          return Number(result.numUpdatedRows)
        }),
      close: () => db.destroy(),
    }
  }
  return { open, version }
}

module.exports = { over }
