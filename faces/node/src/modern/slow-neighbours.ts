import { ALONE, textOf } from '../engine/text-key'

/** A text behind which other statements waited on a shared connection. */
export interface SlowNeighbour {
  /** Its first 200 characters. Texts that differ only in digits and quoted strings count as one. */
  readonly text: string
  /** How many statements waited behind it, all its slow runs together. */
  readonly statements: number
  /** Its longest run at the server, in milliseconds. */
  readonly longestMs: number
}

/** The state of a pool at one moment, and its counts since it was made. */
export interface PoolStats {
  /** Connections now, those that are being opened included. */
  readonly connections: number
  /** Connections that are unused now. */
  readonly idle: number
  /** Callers that wait for a connection now. */
  readonly waiting: number
  /** Statements that waited behind one that took longer than `slowHeadMs` and than a round trip. */
  readonly waitedBehindSlow: number
  /** The texts that they waited behind; the one that held up most comes first. At most 32. */
  readonly slowNeighbours: readonly SlowNeighbour[]
  /** Hedged reads that were sent a second time. */
  readonly hedged: number
}

/** The state of a client at one moment, and its counts since it was made. */
export interface Stats extends PoolStats {
  /** Where reads have gone that replicas may serve. All 0 where the setting `reads` is `primary`. */
  readonly reads: ReadStats
  /**
   * The replicas, in the order of the list of hosts. Their connections are in none of the other
   * numbers.
   */
  readonly replicas: readonly ReplicaStats[]
}

/**
 * Where reads have gone that replicas may serve (`sql.reads()`). A read that went to several servers,
 * one after the other, counts at each.
 */
export interface ReadStats {
  /** Reads that went to the primary, since no replica would do or all were busy. */
  readonly onPrimary: number
  /** Reads that went to replicas. */
  readonly onReplicas: number
  /** Those of them that a replica could not serve, since it had not replayed what they must show. */
  readonly behind: number
}

/** How a replica stands, and its counts. */
export interface ReplicaStats {
  /**
   * The server, as the settings name it. The primary is one of them, too, and serves no reads as
   * long as it is none.
   */
  readonly server: string
  /**
   * Whether reads go there: it is a standby that can be reached, and not further behind than
   * `maxLagMs`.
   */
  readonly serves: boolean
  /** How far it was behind when it was last asked, in milliseconds; undefined if it has not said. */
  readonly lagMs: number | undefined
  /** Reads that went there. */
  readonly reads: number
  /** Those of them that it could not serve, since it had not replayed what they must show. */
  readonly behind: number
  /** The pool of connections to it. */
  readonly pool: PoolStats
}

/** Counts the statements that waited behind slow ones, by the slow text. */
export class SlowNeighbours {
  all = 0
  readonly #byKey = new Map<number, SlowNeighbour>()

  add(key: number, requests: number, millis: number): void {
    this.all += requests
    const known = this.#byKey.get(key)
    const statements = (known?.statements ?? 0) + requests
    const longestMs = Math.max(known?.longestMs ?? 0, millis)
    this.#byKey.set(key, { text: known?.text ?? shown(key), statements, longestMs })
    if (this.#byKey.size > KEPT_MAX) this.#forgetLeast(key)
  }

  get list(): SlowNeighbour[] {
    return [...this.#byKey.values()].sort((a, b) => b.statements - a.statements)
  }

  #forgetLeast(but: number): void {
    let least: number | undefined
    let count = Infinity
    for (const [key, { statements }] of this.#byKey) {
      if (key === but || statements >= count) continue
      least = key
      count = statements
    }
    if (least !== undefined) this.#byKey.delete(least)
  }
}

function shown(key: number): string {
  if (key === ALONE) return '(a statement that wanted to be alone)'
  return (textOf(key) ?? '(its text was forgotten)').slice(0, TEXT_LENGTH)
}

const KEPT_MAX = 32
const TEXT_LENGTH = 200
