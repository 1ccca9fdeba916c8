import { Pool, type PoolClient } from '../src/pg'
import type { Asked, Came } from './conformance/cases'
import { type Place, runCases, type Sent } from './conformance/steps'

/** Runs the cases with the drop-in. It has no atomic pipelines, and its values are those of pg. */
for (const pipeline of [false, true]) {
  runCases(
    {
      name: pipeline ? 'pg pipelined' : 'pg',
      connect(url, { connections_max: max = 4, prepare_threshold: threshold }) {
        const autoPrepare = threshold !== 0
        const pool = new Pool({ connectionString: url, max: max as number, pipeline, autoPrepare })
        pool.on('error', () => {})
        return { client: placeOfPool(pool), end: () => pool.end() }
      },
    },
    ['postgres_pipelines.json', 'postgres_policies/pipelines.json'],
  )
}

function placeOf(client: Pick<PoolClient, 'query'>): Place {
  return { ask: (asked) => sent(client, asked) }
}

function sent(client: Pick<PoolClient, 'query'>, asked: Asked): Sent {
  const { text, parameters, timeout_ms, cancelled } = asked
  const cancel = new AbortController()
  const config = {
    text,
    rowMode: 'array' as const,
    ...(parameters && { values: [...parameters] }),
    ...(timeout_ms && { query_timeout: timeout_ms }),
    ...(cancelled && { signal: cancel.signal }),
  }
  return { came: cameOf(client.query(config) as Promise<never>), cancel: () => cancel.abort() }
}

interface Result {
  readonly fields: readonly { name: string }[]
  readonly rows: unknown[][]
  readonly rowCount: number | null
  readonly command: string | null
}

async function cameOf(result: Promise<Result>): Promise<Came> {
  const { fields, rows, rowCount, command } = await result
  const isRead = command === 'SELECT' && fields.length > 0
  return { columns: fields.map(({ name }) => name), rows, count: isRead ? null : rowCount }
}

function placeOfPool(pool: Pool): Place {
  const session = async <T>(run: (client: Place) => Promise<T>): Promise<T> => {
    const client = await pool.connect()
    client.on('error', () => {})
    try {
      return await run(placeOfClient(client))
    } finally {
      client.release()
    }
  }
  return {
    ...placeOf(pool as Pick<PoolClient, 'query'>),
    session,
    begin: (options, run) => session((client) => client.begin?.(options, run) as Promise<Came | undefined>),
  }
}

function placeOfClient(client: PoolClient): Place {
  return {
    ...placeOf(client),
    async begin({ isolation, read_only: readOnly }, run) {
      const modes = `${isolation ? ` isolation level ${isolation}` : ''}${readOnly ? ' read only' : ''}`
      await client.query(`begin${modes}`)
      try {
        const last = await run({ ...placeOf(client), ...savepoints(client, 1) })
        const came = last && (await sent(client, last).came)
        const { command } = (await client.query('commit')) as { command: string }
        // As with pg, only the tag of COMMIT says that a failed transaction was rolled back.
        if (command === 'ROLLBACK') throw Object.assign(new Error('rolled back'), ROLLED_BACK)
        return came
      } catch (error) {
        await client.query('rollback')
        throw error
      }
    },
  }
}

const ROLLED_BACK = { code: 'rolled_back', outcome: 'Rejected' }

function savepoints(client: PoolClient, level: number): Pick<Place, 'savepoint'> {
  return {
    async savepoint(run) {
      await client.query(`savepoint s${level}`)
      try {
        await run({ ...placeOf(client), ...savepoints(client, level + 1) })
        await client.query(`release s${level}`)
      } catch (error) {
        await client.query(`rollback to s${level}`)
        throw error
      }
    },
  }
}
