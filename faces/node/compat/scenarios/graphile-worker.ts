// graphile-worker keeps a client of its own for LISTEN, fetches jobs by prepared statements with names, and migrates by texts of many
// statements.
import { EventEmitter } from 'node:events'

import { Logger, makeWorkerUtils, run, runOnce, type DbJob, type Job, type RunnerOptions, type TaskList, type WorkerEvents, type WorkerUtils } from 'graphile-worker'
import { Pool } from 'pg'

import type { Scenarios, Stage } from '../support/stage'

const quiet = new Logger(() => () => {})

interface Worker {
  pool: Pool
  utils: WorkerUtils
}

async function withWorker(stage: Stage, use: (worker: Worker) => Promise<void>): Promise<void> {
  const pool = new Pool({ connectionString: stage.url, max: 6 })
  pool.on('error', (error) => stage.see('error of the pool', error))
  // It demands a listener on the clients, too.
  pool.on('connect', (client) => void client.on('error', (error) => stage.see('error of a client', error)))
  const utils = await makeWorkerUtils({ pgPool: pool, logger: quiet })
  try {
    await utils.migrate()
    await use({ pool, utils })
  } finally {
    await utils.release()
    await pool.end()
  }
}

/** A job without the fields that differ from run to run. */
function known(job: Job | DbJob | undefined): unknown {
  if (job === undefined) return undefined
  const dates = Object.entries(job).filter(([, value]) => (value as unknown) instanceof Date).map(([key]) => key)
  return { ...job, ...Object.fromEntries(dates.map((key) => [key, 'a date'])), locked_by: typeof job.locked_by }
}

/** Waits until no job is locked: a run may end before the server has noted the end of its last job. */
async function unlocked(pool: Pool): Promise<void> {
  for (let left = 1; left > 0; ) {
    const { rows } = await pool.query<{ n: number }>('select count(*)::int as n from graphile_worker.jobs where locked_at is not null')
    left = rows[0]?.n ?? 0
  }
}

async function lifeOfJobs(stage: Stage): Promise<void> {
  await withWorker(stage, async ({ pool, utils }) => {
    const { see, settles } = stage
    see('added', known(await utils.addJob('mail', { to: 'ann', nested: { list: [1, null, 'ü'] } }, { priority: 3 })))
    await settles('with a key', utils.addJob('mail', { n: 1 }, { jobKey: 'one', maxAttempts: 2 }).then(known))
    await settles('replaced', utils.addJob('mail', { n: 2 }, { jobKey: 'one', jobKeyMode: 'replace' }).then(known))
    await settles('later', utils.addJob('mail', {}, { runAt: new Date('2100-01-01T00:00:00Z'), queueName: 'q', flags: ['x'] }).then(({ run_at: at }) => at))
    const seen: unknown[] = []
    const taskList: TaskList = {
      mail: async (payload, helpers) => {
        seen.push([payload, known(helpers.job)])
        const { rows } = await helpers.query('select $1::int as one', [1])
        await helpers.addJob('follow', { rows })
        if (JSON.stringify(payload) === '{"n":2}') throw new Error('not now')
      },
      follow: async (payload, { withPgClient }) => {
        const { rows } = await withPgClient((client) => client.query('select 2 as two'))
        seen.push([payload, rows])
      },
    }
    await settles('run', runOnce({ pgPool: pool, logger: quiet, taskList, noHandleSignals: true, concurrency: 1 }))
    see('seen', seen)
    await unlocked(pool)
    const { rows } = await pool.query('select task_identifier, attempts, last_error, key, locked_at, flags from graphile_worker.jobs order by id')
    see('left', rows.map((row) => ({ ...row, last_error: (row.last_error as string | null)?.split('\n')[0] })))
    const ids = (await pool.query<{ id: string }>('select id from graphile_worker.jobs order by id')).rows.map(({ id }) => id)
    await settles('completed', utils.completeJobs(ids.slice(0, 1)).then((jobs) => jobs.map(known)))
    await settles('failed', utils.permanentlyFailJobs(ids.slice(1), 'no more').then((jobs) => jobs.map(known)))
    await settles('rescheduled', utils.rescheduleJobs(ids.slice(1), { runAt: new Date('2100-01-01T00:00:00Z'), attempts: 0 }).then((jobs) => jobs.map(({ attempts }) => attempts)))
    await settles('no name', utils.addJob('x'.repeat(200), {}).then(known))
    await settles('cleaned up', utils.cleanup({ tasks: ['GC_TASK_IDENTIFIERS', 'GC_JOB_QUEUES'] }))
  })
}

/** Runs a worker until this many jobs have ended. */
async function runUntil(options: RunnerOptions, count: number, meanwhile: () => Promise<unknown>): Promise<void> {
  const events = new EventEmitter() as WorkerEvents
  let left = count
  const done = new Promise<void>((resolve) => {
    events.on('job:complete', () => (--left === 0 ? resolve() : undefined))
  })
  const runner = await run({ logger: quiet, noHandleSignals: true, events, ...options })
  await meanwhile()
  await done
  await runner.stop()
}

/** Jobs that are added while it listens. Its interval is so long that only a notification wakes it. */
async function notified(stage: Stage): Promise<void> {
  await withWorker(stage, async ({ pool, utils }) => {
    const seen: number[] = []
    const taskList: TaskList = { count: async (payload) => void seen.push((payload as { n: number }).n) }
    await runUntil({ pgPool: pool, taskList, concurrency: 3, pollInterval: 600_000 }, 50, () => {
      return Promise.all(Array.from({ length: 50 }, (_, n) => utils.addJob('count', { n })))
    })
    stage.see('each once', seen.sort((a, b) => a - b))
  })
}

/** A job that fails is tried again. */
async function retried(stage: Stage): Promise<void> {
  await withWorker(stage, async ({ pool, utils }) => {
    const attempts: number[] = []
    const taskList: TaskList = {
      again: async (_, { job }) => {
        attempts.push(job.attempts)
        if (job.attempts < 3) throw new Error('once more')
      },
    }
    await runUntil({ pgPool: pool, taskList, pollInterval: 100 }, 3, async () => {
      const { id } = await utils.addJob('again', {})
      while (attempts.length < 3) await utils.rescheduleJobs([id], { runAt: new Date(0) })
    })
    stage.see('attempts', attempts)
  })
}

/** Jobs are added within the transaction of an application, by SQL. */
async function ownTransaction(stage: Stage): Promise<void> {
  await withWorker(stage, async ({ pool }) => {
    const seen: unknown[] = []
    const taskList: TaskList = { tx: async (payload) => void seen.push(payload) }
    const client = await pool.connect()
    for (const end of ['rollback', 'commit']) {
      await client.query('begin')
      await client.query("select graphile_worker.add_job('tx', json_build_object('end', $1::text))", [end])
      await client.query(end)
    }
    client.release()
    await runOnce({ pgPool: pool, logger: quiet, taskList, noHandleSignals: true })
    stage.see('seen', seen)
  })
}

/** A pool of its own, from a connection string. The jobs of one queue run one after the other. */
async function queues(stage: Stage): Promise<void> {
  await withWorker(stage, async ({ utils }) => {
    const order: string[] = []
    const taskList: TaskList = {
      step: async (payload, { query }) => {
        const { n } = payload as { n: number }
        order.push(`${n} begins`)
        await query('select 1')
        order.push(`${n} ends`)
      },
    }
    for (const n of [1, 2, 3, 4]) await utils.addJob('step', { n }, { queueName: 'line' })
    await runUntil({ connectionString: stage.url, taskList, concurrency: 4, maxPoolSize: 5, pollInterval: 100 }, 4, async () => {})
    stage.see('order', order)
  })
}

const scenarios: Scenarios = {
  'jobs are added, run, completed, failed and put off': lifeOfJobs,
  'a notification wakes the worker': notified,
  'a job that fails is tried again': retried,
  'jobs in a transaction': ownTransaction,
  'jobs of one queue': queues,
}
export = scenarios
