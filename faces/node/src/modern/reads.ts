import { delay } from '../engine/clock'
import { OUTCOMES, type Outcome } from '../engine/choices'
import { Shows, StatementPlace, Step } from '../engine/exports'
import { Replicas } from '../engine/replicas'
import type { Settings } from './config'
import type { Connection } from './connection'
import { misuse, PostgresError } from './error'
import { refused } from './failure'
import { closed, type Pool } from './pool'
import { Position } from './position'
import { TaggedStatement, type Defaults } from './query'
import { Question } from './question'
import type { Scope } from './scope'
import type { ReplicaStats, Stats } from './slow-neighbours'
import { tagOf, type Tag } from './tag'
import { Template } from './template'
import { refusal } from './traits'

/**
 * Reads that replicas may serve: a tag, as the client is. Where they go, the setting `reads` says:
 * to the primary (the default), to replicas with the primary's help (`prefer_replica`), or to
 * replicas only (`replica`).
 *
 * They show this client's own writes: all that were acknowledged before the statement was
 * submitted. For that a guard goes in front of the read, in the same trip. Where the replica is not
 * there yet, nothing of the read runs, and it goes to the primary.
 *
 * A text that shows more than one SELECT, VALUES, TABLE or WITH, or INTO, row locks or a writing
 * WITH, is refused (`not_a_read`). A read that only replicas may serve fails with `no_replica` where
 * none was able to within `waitTimeoutMs`. Streams, `repeatable` and `hedged` are not for reads. A
 * read that was sent to a replica whose connection is lost ends as `Unknown`, and is not sent again.
 */
export interface Reads extends Tag {
  /**
   * The same, but they show all writes up to this position, which may come from another process. It
   * takes the place of the client's own newest position: a read may then miss a later write of this
   * client. For both, give `position.max(await sql.position())`.
   */
  after(position: Position): Reads
  /** The same, but they show whatever the replica has. `maxLagMs` says how far it may be behind. */
  stale(): Reads
  /**
   * The same, but a read that no replica can serve yet waits for that for up to so many
   * milliseconds. Then it goes to the primary, or, with `reads=replica`, fails. Default: it does not
   * wait; with `reads=replica`, `waitTimeoutMs`.
   */
  orWait(ms: number): Reads
}

/** What reads must show. */
interface Wanted {
  readonly shows: Shows
  /** The text of a position, in bytes. */
  readonly position: Uint8Array
  readonly boundMs: number
}

const NO_POSITION = new Uint8Array()

/** The numbers of a client that has no replicas. */
export const NO_READS: Pick<Stats, 'reads' | 'replicas'> = {
  reads: { onPrimary: 0, onReplicas: 0, behind: 0 },
  replicas: [],
}

const OWN: Wanted = { shows: Shows.OWN, position: NO_POSITION, boundMs: -1 }

/** The replicas of a client: a pool for each server of its list. The module decides. */
export class ReplicaSet {
  readonly replicas: Replicas
  readonly #primary: Pool
  readonly #pools: readonly Pool[]
  readonly #defaults: Defaults
  readonly #question: Template
  readonly #probe: Template
  readonly #probes = new Set<Question>()

  /** `beside` makes the pool of one server of the list. */
  constructor(primary: Pool, beside: (settings: Settings) => Pool, defaults: Defaults) {
    const { settings } = primary
    this.#primary = primary
    this.#defaults = defaults
    this.#pools = settings.replicas().map(beside)
    this.replicas = new Replicas(settings.ofReplicas(this.#pools.length))
    this.#question = new Template([this.replicas.question])
    this.#probe = new Template([this.replicas.probe])
    primary.watchedBy(this.replicas)
  }

  // --- what callers get ---

  reads(wanted: Wanted = OWN): Reads {
    const scope: ReadScope = {
      set: this,
      _submit: (statement) => this.#begin(statement as ReadStatement, wanted),
      _takeBack: (statement) => this.#poolOf(statement as ReadStatement)._takeBack(statement),
      _late: (error) => this.#primary._late(error),
    }
    const more = {
      after: (position: unknown) => {
        if (!(position instanceof Position)) throw misuse('position', 'after takes a Position')
        return this.reads({ ...wanted, shows: Shows.AFTER, position: Buffer.from(position.toString()) })
      },
      stale: () => this.reads({ ...wanted, shows: Shows.ANYTHING, position: NO_POSITION }),
      orWait: (ms: number) => {
        if (!(ms >= 0)) throw misuse('or_wait', 'orWait takes milliseconds, 0 or more')
        return this.reads({ ...wanted, boundMs: ms })
      },
    }
    return tagOf(scope, this.#defaults, more, ReadStatement)
  }

  async position(): Promise<Position> {
    const known = this.replicas.newest
    if (known !== '') return Position.parse(known)
    const question = new Question(this.#primary, this.#question, this.#defaults.timeoutMs)
    const row = await question.answer()
    const position = row === undefined ? '' : this.replicas.read(row)
    if (position !== '') return Position.parse(position)
    throw misuse(
      'no_position',
      'the server is a standby, which writes nothing, so there is no position: connect to the primary (target_session_attrs=primary)',
    )
  }

  get stats(): Pick<Stats, 'reads' | 'replicas'> {
    const replicas = this.#pools.map((pool, at): ReplicaStats => {
      const [host] = pool.settings.endpoints
      return { server: `${host?.host}:${host?.port}`, ...this.replicas.status(at), pool: pool.stats }
    })
    const sum = (of: (one: ReplicaStats) => number): number =>
      replicas.reduce((all, one) => all + of(one), 0)
    const [onReplicas, behind] = [sum((one) => one.reads), sum((one) => one.behind)]
    return { reads: { onPrimary: this.replicas.onPrimary, onReplicas, behind }, replicas }
  }

  // --- reads ---

  #begin(statement: ReadStatement, { shows, position, boundMs }: Wanted): void {
    const no = refusal(statement.traits, StatementPlace.READ)
    if (no !== undefined) return statement.fail(no, 'NotSent')
    const left = statement.watch?.left ?? Infinity
    statement.epoch = this.replicas.epoch
    statement.number = this.replicas.begin(shows, position, boundMs, left)
    this.#step(statement)
  }

  #step(statement: ReadStatement): void {
    if (statement.isOver) return
    if (this.#primary.isClosing) return statement.fail(closed(), 'NotSent')
    // With the module all that it knew of the read was lost, and it goes to the primary.
    if (statement.epoch !== this.replicas.epoch) statement.number = 0
    const { number, key } = statement
    const step = this.replicas.step(number, key, this.#primary, this.#pools)
    this.#probeAll()
    if (step >= Step.REPLICA) return this.#submit(statement, (step - Step.REPLICA) >> 1, (step & 1) !== 0)
    if (step === Step.PAUSE) return this.#pause(statement)
    statement.number = 0
    if (step === Step.PRIMARY) this.#primary.place(statement)
    else if (step === Step.LATE) statement.watch?.late()
    else statement.fail(noReplica(), 'NotSent')
  }

  #submit(statement: ReadStatement, at: number, waits: boolean): void {
    const pool = this.#pools[at] as Pool
    statement.at = at
    if (waits) return pool.place(statement)
    if (pool.tryPlace(statement)) return
    statement.at = NOWHERE
    this.#pause(statement)
  }

  #pause(statement: ReadStatement): void {
    setTimeout(() => this.#step(statement), delay(this.replicas.pauseMs))
  }

  #poolOf({ at }: ReadStatement): Pool {
    return this.#pools[at] ?? this.#primary
  }

  /** A read has failed where it was sent. Returns whether it goes on elsewhere. */
  goesOn(statement: ReadStatement, error: PostgresError, outcome: Outcome): boolean {
    if (statement.epoch !== this.replicas.epoch) return false
    const isFinal = statement.reason !== undefined || this.#primary.isClosing
    const isSkipped = error.code === 'aborted'
    if (!this.replicas.ended(statement.number, OUTCOMES.indexOf(outcome), isSkipped, isFinal)) {
      statement.number = 0
      return false
    }
    statement.begins()
    // Not in this turn: where connections go on to refuse it, others must get their turn.
    setImmediate(() => this.#step(statement))
    return true
  }

  forget({ number, epoch }: ReadStatement): void {
    if (number !== 0 && epoch === this.replicas.epoch) this.replicas.forget(number)
  }

  // --- probes ---

  #probeAll(): void {
    for (;;) {
      const at = this.replicas.toProbe()
      if (at < 0) return
      void this.#ask(at)
    }
  }

  async #ask(at: number): Promise<void> {
    const { epoch } = this.replicas
    const probe = new Question(this.#pools[at] as Pool, this.#probe, PROBE_TIMEOUT_MS)
    this.#probes.add(probe)
    const row = await probe.answer().catch(() => undefined)
    this.#probes.delete(probe)
    if (epoch === this.replicas.epoch) this.replicas.probed(at, row)
  }

  // --- its end ---

  /** Ends the pools of the replicas. See `Sql.end`. */
  async end(timeoutMs: number): Promise<void> {
    for (const probe of [...this.#probes]) {
      if (probe.connection === undefined) probe.abandon(closed(), true, false)
    }
    const leave = (): void => this.#pools.forEach((pool) => pool.leaveQuestions())
    const timer = setTimeout(leave, LAST_PROBE_MS)
    await Promise.all(this.#pools.map((pool) => pool.end(timeoutMs)))
    clearTimeout(timer)
    this.replicas.free()
  }
}

/** The scope of reads. */
interface ReadScope extends Scope {
  readonly set: ReplicaSet
}

/** A read, which may be sent to several servers, one after the other. */
export class ReadStatement extends TaggedStatement<unknown> {
  declare readonly scope: ReadScope
  /** Its number in the module, in this life of the module; 0 once it goes nowhere else. */
  number = 0
  epoch = 0
  /** The replica that it was sent to. */
  at = NOWHERE

  override _run(connection: Connection): void {
    if (this.at === NOWHERE) return super._run(connection)
    this.connection = connection
    const read = { number: this.number, replicas: this.scope.set.replicas.address }
    const place = connection.submitRead(this, read, this.text, this.parameters, this.key)
    this.place = place
    if (place < 0) this.fail(refused(place, connection.why), 'NotSent')
  }

  /** The guard in front of it has ended. */
  guarded(kind: number, a: number, b: number): void {
    this.scope.set.replicas.guarded(this.at, this.number, kind, a, b)
  }

  override fail(error: PostgresError, outcome: Outcome): void {
    const isElsewhere = !this.isOver && this.number !== 0 && this.scope.set.goesOn(this, error, outcome)
    if (!isElsewhere) super.fail(error, outcome)
  }

  override finish(): void {
    this.scope.set.forget(this)
    super.finish()
  }

  /** It is sent anew: nothing of it has run. */
  begins(): void {
    this.at = NOWHERE
    this.connection = undefined
    this.place = 0
    this.restarted()
  }
}

const NOWHERE = -1

function noReplica(): PostgresError {
  return misuse(
    'no_replica',
    'no replica can serve this read: all are down, or have not replayed what it must show; wait longer (orWait), or let the primary help out (reads=prefer_replica)',
  )
}

/** How long a probe may take, the opening of a connection included. */
const PROBE_TIMEOUT_MS = 5000

/** How long the end of a client waits for the answer to a probe. */
const LAST_PROBE_MS = 1000
