import { OUTCOMES, type Outcome } from '../engine/choices'
import { End, Flag, Refused, StatementPlace } from '../engine/exports'
import type { Receiver } from '../engine/link'
import { failureOfSegment, type MemberEnd } from '../engine/outcome'
import { ABORTED, ROLLED_BACK } from '../engine/said'
import { keyOfPipeline, UNTOLD } from '../engine/text-key'
import type { Connection } from './connection'
import { again, misuse, PostgresError } from './error'
import { ended, refused as refusedAt, serverError } from './failure'
import type { Pool, Work } from './pool'
import type { Rows } from './rows'
import type { Keeper, Scope } from './scope'
import type { Statement } from './statement'
import { refusal } from './traits'

/** Statements that share one sync point: all of them take effect, or none. */
export class Pipeline implements Work, Keeper, Receiver, Scope {
  readonly watch = undefined
  readonly until = Infinity
  /** The key of its first statement: the pool places the pipeline by it. */
  get key(): number {
    return keyOfPipeline(this.#statements[0]?.key ?? UNTOLD)
  }
  isOver = false
  readonly #pool: Pool
  #statements: readonly Statement[] = []
  readonly #failures = new Map<Statement, PostgresError>()
  #connection: Connection | undefined
  #resolve: ((results: Rows<unknown>[]) => void) | undefined
  #reject: ((error: unknown) => void) | undefined

  constructor(pool: Pool) {
    this.#pool = pool
  }

  /** A statement of the pipeline was awaited before the pipeline was sent. */
  _submit(statement: Statement): void {
    const message = 'a statement of a pipeline is not sent alone: return it, and await the pipeline'
    statement.fail(misuse('pipeline_open', message), 'NotSent')
  }

  _takeBack(): void {}

  /** Sends the statements in this order. Resolves to their results. */
  send(statements: readonly Statement[]): Promise<Rows<unknown>[]> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      let i = 0
      try {
        for (; i < statements.length; i++) this.#take(statements[i] as Statement)
      } catch (error) {
        if (error instanceof PostgresError && error.statement === undefined) error.statement = i
        this.#refuse(statements, error)
        return reject(error)
      }
      this.#statements = statements
      if (statements.length === 0) return resolve([])
      const { queueMax } = this
      if (statements.length >= queueMax) {
        const message = `a pipeline takes fewer than ${queueMax} statements (queue_max), and this one has ${statements.length}`
        return this.fail(misuse('pipeline_too_long', message), 'NotSent')
      }
      this.#pool.place(this)
    })
  }

  /**
   * Fails all statements, because one was refused: none may be sent alone if it is awaited later.
   * Statements that were sent before, by something else, have an end of their own.
   */
  #refuse(statements: readonly Statement[], error: unknown): void {
    for (const statement of statements) {
      if (!statement.isSent) statement.take()
      else if (statement.keeper !== this) continue
      statement.finishWith(error instanceof PostgresError ? again(error, 'NotSent') : error)
    }
  }

  get queueMax(): number {
    return this.#pool.settings.number('queue_max')
  }

  #take(statement: Statement): void {
    if (!statement.isPlain) {
      throw misuse(
        'pipeline_option',
        'a statement of a pipeline takes no timeout, signal or repeatable',
      )
    }
    statement.take()
    statement.watch = undefined
    statement.keeper = this
    statement.prepare()
    const refused = refusal(statement.traits, StatementPlace.PIPELINE)
    if (refused !== undefined) throw refused.about(statement.text)
  }

  _run(connection: Connection): void {
    this.#connection = connection
    const statements = this.#statements
    const [first, ...rest] = statements as [Statement, ...Statement[]]
    const taken = first._submitOn(connection, Flag.MEMBER)
    if (taken === Refused.FULL && this.#pool._waits(this)) return
    if (!first._isTaken(connection, taken)) return this.#failed(undefined)
    // Once the first one is in, the rest is taken, and only what can't be encoded is refused.
    if (!rest.every((it) => it._sendOn(connection, Flag.MEMBER))) connection.failSegment()
    const place = connection.sync(this)
    if (place < 0) this.fail(refusedAt(place, connection.why), 'NotSent')
  }

  // --- its statements ---

  _ended(statement: Statement, error: PostgresError | undefined): boolean {
    if (error === undefined) return true
    this.#failures.set(statement, error)
    return true
  }

  // --- its sync point ---

  received(): void {}

  restarted(): void {}

  ended(how: number, outcome: number, start: number, end: number): void {
    const connection = this.#connection as Connection
    connection.ended()
    if (this.isOver) return
    const known = OUTCOMES[outcome] ?? 'Unknown'
    if (how === End.COMPLETE && this.#failures.size === 0) return this.#succeed()
    if (how === End.COMPLETE) return this.#failed(undefined)
    if (how === End.SERVER) this.#failed(serverError(start, end, known))
    else if (how === End.CLOSED) this.#failed(again(connection.why, known))
    else this.#failed(ended(how, known))
  }

  #succeed(): void {
    this.isOver = true
    const results = this.#statements.map((statement) => {
      statement.finish()
      return statement.rows
    })
    this.#resolve?.(results)
  }

  fail(error: PostgresError, outcome: Outcome): void {
    error.outcome = outcome
    this.#failed(error)
  }

  /** `last`: the error of its sync point, or the reason why nothing was sent. */
  #failed(last: PostgresError | undefined): void {
    if (this.isOver) return
    this.isOver = true
    const statements = this.#statements
    const ends = statements.map((it) => endOf(this.#failures.get(it)))
    const failed = failureOfSegment(ends, last?.outcome)
    const at = failed?.cause ?? -1
    const failure = this.#failures.get(statements[at] as Statement)
    const cause = failure ?? last ?? ended(End.ABORTED, 'Rejected')
    for (const statement of statements) {
      const own = this.#failures.get(statement)
      // What can't be read is of no account where all is undone.
      const stands = own !== undefined && (last === undefined || own.outcome !== 'Applied')
      statement.finishWith(stands ? own : undone(cause))
    }
    if (failure === undefined) return this.#reject?.(cause)
    const error = again(failure, failed?.outcome ?? failure.outcome)
    // With one statement its number says nothing, as in Rust.
    if (statements.length > 1)
      error.message = `statement ${at + 1} of the pipeline: ${failure.message}`
    error.statement = at
    this.#reject?.(error.about(statements[at]?.text ?? ''))
  }
}

function endOf(error: PostgresError | undefined): MemberEnd {
  return error?.code === ABORTED.code ? 'skipped' : error?.outcome
}

/** The error of a statement that was complete when another one failed. */
function undone(cause: PostgresError): PostgresError {
  if (cause.outcome !== 'Rejected') return again(cause, cause.outcome)
  const message = `${ROLLED_BACK.text}: ${cause.message}`
  return new PostgresError(ROLLED_BACK.code, 'Rejected', message, cause)
}
