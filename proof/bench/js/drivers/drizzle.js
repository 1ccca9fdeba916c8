// Drizzle as its documentation has it for pg, on a pool of either.
'use strict'

const { eq, sql } = require('drizzle-orm')
const { drizzle } = require('drizzle-orm/node-postgres')
const { bigint, integer, pgTable } = require('drizzle-orm/pg-core')

const account = pgTable('account', {
  id: integer().primaryKey(),
  balance: bigint({ mode: 'bigint' }).notNull(),
})

function over(pg, version) {
  async function open(connectionString) {
    const pool = new pg.Pool({ connectionString, max: 1 })
    const db = drizzle({ client: pool })
    return {
      transaction: (id) =>
        db.transaction(async (tx) => {
          const [found] = await tx.select().from(account).where(eq(account.id, id)).for('update')
          const to = { balance: sql`${account.balance} + 1` }
          const { rowCount } = await tx.update(account).set(to).where(eq(account.id, found.id))
          return rowCount
        }),
      close: () => pool.end(),
    }
  }
  return { open, version }
}

module.exports = { over }
