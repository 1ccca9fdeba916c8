import { clock } from './clock'
import type { Exports, Shows } from './exports'
import { memory, type Handle } from './memory'

/** A text that the module says. */
const enum Said {
  NEWEST = 0,
  QUESTION = 1,
  PROBE = 2,
}

/** What a connection knew of the position of its writes when the module was lost. */
const enum Uncertain {
  YES = 1,
  LOST = 2,
}

/** A number of one server. */
const enum Numbered {
  READS = 0,
  BEHIND = 1,
  SERVES = 2,
  LAG = 3,
}

/** Stands for the primary where the number of a replica is asked for. */
const PRIMARY = 0xffff_ffff

/** A pool in the module. */
export interface Pooled {
  /** Its address. */
  readonly address: number
}

/** The settings of reads on replicas. */
export interface ReplicaSettings {
  readonly count: number
  /** The place of the setting's word. */
  readonly reads: number
  readonly maxLagMs: number
  readonly waitTimeoutMs: number
}

/**
 * The replicas of one client, in the module: where each read goes, which replica is probed, and
 * what is known of the position of the client's own writes.
 */
export class Replicas implements Handle {
  engine: Exports = memory.engine
  /** How often the module was lost: numbers of reads hold for one of its lives. */
  epoch = 0
  #address = 0
  readonly #settings: ReplicaSettings
  #probe = ''
  #question = ''

  constructor(settings: ReplicaSettings) {
    this.#settings = settings
    this.#make()
  }

  #make(): void {
    const { count, reads, maxLagMs, waitTimeoutMs } = this.#settings
    this.engine = memory.engine
    this.#address = this.engine.onetrip_replicas_new(count, reads, maxLagMs, waitTimeoutMs) >>> 0
    memory.handles.add(this)
  }

  /** The module failed. What was written before has a position that nobody knows any more. */
  evicted(): void {
    this.epoch++
    this.#make()
    this.uncertain(Uncertain.YES)
    this.uncertain(Uncertain.LOST)
  }

  /** Frees it. Later calls do nothing. */
  free(): void {
    memory.handles.delete(this)
    const address = this.#address
    this.#address = 0
    if (address !== 0) this.engine.onetrip_replicas_free(address)
  }

  /** The address in the module; 0 if there is none. */
  get address(): number {
    return this.#address
  }

  // --- reads ---

  /** Begins a read. `position`: its text, for `AFTER`. `boundMs` is negative for the default. Returns its number. */
  begin(shows: Shows, position: Uint8Array, boundMs: number, timeoutMs: number): number {
    if (this.#address === 0) return 0
    const { length } = position
    const begin = (start: number): number => {
      const { engine } = this
      return engine.onetrip_replicas_begin(this.#address, clock(), shows, start, length, boundMs, timeoutMs)
    }
    return length === 0 ? begin(0) : memory.lend(position, begin)
  }

  /** What a read does next, given the pools of the primary and of the replicas. */
  step(read: number, key: number, primary: Pooled, pools: readonly Pooled[]): number {
    const { engine } = this
    const replicas = this.#address
    if (replicas === 0) return 0
    engine.onetrip_replicas_see(replicas, PRIMARY, primary.address, key)
    for (let at = 0; at < pools.length; at++) {
      engine.onetrip_replicas_see(replicas, at, (pools[at] as Pooled).address, key)
    }
    return engine.onetrip_replicas_step(replicas, clock(), read)
  }

  /** How many milliseconds a read pauses. */
  get pauseMs(): number {
    return this.#address === 0 ? 0 : this.engine.onetrip_replicas_pause(this.#address)
  }

  /** A guard in front of a read has ended on a replica. */
  guarded(at: number, read: number, kind: number, a: number, b: number): void {
    if (this.#address === 0) return
    this.engine.onetrip_replicas_guarded(this.#address, clock(), at, read, kind, a, b)
  }

  /** A read has ended on a replica. Returns whether it goes on with another step. */
  ended(read: number, outcome: number, isSkipped: boolean, isFinal: boolean): boolean {
    if (this.#address === 0) return false
    const [skipped, final] = [Number(isSkipped), Number(isFinal)]
    return this.engine.onetrip_replicas_ended(this.#address, clock(), read, outcome, skipped, final) !== 0
  }

  /** Nobody waits for a read any more. */
  forget(read: number): void {
    if (this.#address !== 0) this.engine.onetrip_replicas_forget(this.#address, read)
  }

  // --- numbers ---

  /** How a replica stands, and what became of the reads that went there. */
  status(at: number): { serves: boolean; lagMs: number | undefined; reads: number; behind: number } {
    const lag = this.#number(at, Numbered.LAG)
    return {
      serves: this.#number(at, Numbered.SERVES) !== 0,
      lagMs: lag < 0 ? undefined : lag,
      reads: this.#number(at, Numbered.READS),
      behind: this.#number(at, Numbered.BEHIND),
    }
  }

  /** How many reads went to the primary that replicas may serve. */
  get onPrimary(): number {
    return this.#number(PRIMARY, Numbered.READS)
  }

  #number(at: number, what: Numbered): number {
    if (this.#address === 0) return what === Numbered.LAG ? -1 : 0
    return this.engine.onetrip_replicas_number(this.#address, clock(), at, what)
  }

  // --- probes ---

  /** The replica to probe now; -1 for none. */
  toProbe(): number {
    if (this.#address === 0) return -1
    return this.engine.onetrip_replicas_to_probe(this.#address, clock()) | 0
  }

  /** A probe has ended. `row`: the message with its row; undefined if it failed. */
  probed(at: number, row: Uint8Array | undefined): void {
    if (this.#address === 0) return
    const bytes = row ?? NOTHING
    memory.lend(bytes, (start) =>
      this.engine.onetrip_replicas_probed(this.#address, clock(), at, start, bytes.length, Math.random()),
    )
  }

  /** What a replica is asked that is to be probed. */
  get probe(): string {
    return (this.#probe ||= this.#say(Said.PROBE))
  }

  // --- positions ---

  /** Takes an `UNCERTAIN`. Returns whether all connections to the primary are to be marked. */
  uncertain(what: number): boolean {
    if (this.#address === 0) return false
    return this.engine.onetrip_replicas_uncertain(this.#address, what) !== 0
  }

  /** Takes a `POSITION`. */
  positioned(mark: number, start: number, end: number): void {
    if (this.#address === 0) return
    this.engine.onetrip_replicas_positioned(this.#address, mark, start, end - start)
  }

  /** Marks a connection to the primary. */
  mark(connection: number): void {
    if (this.#address !== 0 && connection !== 0) {
      this.engine.onetrip_replicas_mark(this.#address, connection)
    }
  }

  /** The position behind all writes that were acknowledged; empty if it is not known. */
  get newest(): string {
    return this.#say(Said.NEWEST)
  }

  /** The question for it. */
  get question(): string {
    return (this.#question ||= this.#say(Said.QUESTION))
  }

  /** The position that the message with the row of an answer has; empty if it has none. */
  read(row: Uint8Array): string {
    if (this.#address === 0) return ''
    const length = memory.lend(row, (start) =>
      this.engine.onetrip_replicas_read(this.#address, start, row.length),
    )
    return this.#text(length)
  }

  #say(what: Said): string {
    if (this.#address === 0) return ''
    return this.#text(this.engine.onetrip_replicas_say(this.#address, what))
  }

  #text(length: number): string {
    const start = this.engine.onetrip_replicas_text(this.#address) >>> 0
    memory.refresh()
    return memory.text(start, start + length)
  }
}

const NOTHING = new Uint8Array(0)

/** Which of two positions covers both: 0 or 1. Negative if one of the texts is no position. */
export function later(first: string, second: string): number {
  const bytes = Buffer.from(first + second)
  if (bytes.length === 0) return -1
  return memory.lend(bytes, (start) =>
    memory.engine.onetrip_position_later(start, Buffer.byteLength(first), bytes.length),
  )
}
