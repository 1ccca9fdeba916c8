import { isUint8Array } from 'node:util/types'

import { Place, Traits } from '../engine/exports'
import { memory } from '../engine/memory'
import { type Argument, sizeOf, Words, write } from './encode'
import { noMemory } from './ends'

/** What the engine's table says of a command. */
export interface Known {
  /** Whether the table has the command. */
  readonly isKnown: boolean
  /** It reads data and changes none. */
  readonly readonly: boolean
  /** If it fails, its earlier effects may stand. */
  readonly leaves: boolean
  /** Its reply may be kept until one of its keys is changed. */
  readonly isCacheable: boolean
  /** It may change what is kept of other replies. */
  readonly changes: boolean
  /** Where it may be sent: one of `Place`. */
  readonly place: number
  /** What to use instead, if it can't be sent. */
  readonly advice: string
}

/**
 * The number of words that `onetrip_redis_look` writes: bits, and length and address of the advice.
 */
const WORDS = 3

/** A command by its name in capitals, with the subcommand behind a space. */
export class Spec implements Known {
  readonly name: string
  readonly words: Words
  readonly isKnown: boolean
  readonly readonly: boolean
  readonly leaves: boolean
  readonly isCacheable: boolean
  readonly changes: boolean
  readonly place: number
  readonly advice: string
  readonly #depends: boolean

  constructor(name: string) {
    this.name = name
    this.words = new Words(name)
    const { traits, known } = look(this.words, [], name)
    this.isKnown = known.isKnown
    this.readonly = known.readonly
    this.leaves = known.leaves
    this.isCacheable = known.isCacheable
    this.changes = known.changes
    this.place = known.place
    this.advice = known.advice
    this.#depends = ((traits[0] as number) & Traits.DEPENDS) !== 0
  }

  /** The same for a command with these arguments, in case they matter. */
  with(args: readonly Argument[]): Known {
    return this.#depends ? look(this.words, args, this.name).known : this
  }
}

/** The hash slot of a key. */
export function slotOf(key: Argument): number {
  const bytes = isUint8Array(key) ? key : Buffer.from(`${key}`)
  if (bytes.length === 0) return memory.engine.onetrip_redis_slot(0, 0)
  return memory.lend(bytes, (start) => memory.engine.onetrip_redis_slot(start, bytes.length))
}

function look(
  words: Words,
  args: readonly Argument[],
  name: string,
): { traits: Uint32Array; known: Known } {
  const { engine } = memory
  const size = WORDS * 4 + sizeOf(words, args, name)
  const place = engine.onetrip_alloc(size) >>> 0
  if (place === 0) throw noMemory(name)
  memory.refresh()
  const start = place + WORDS * 4
  const seen = engine.onetrip_redis_look(start, write(start, words, args) - start, place) !== 0
  memory.refresh()
  const traits = memory.words.slice(place >>> 2, start >>> 2)
  engine.onetrip_free(place, size)
  if (!seen) throw noMemory(name)
  const [bits = 0, len = 0, advice = 0] = traits
  const known = {
    isKnown: (bits & Traits.KNOWN) !== 0,
    readonly: (bits & Traits.READONLY) !== 0,
    leaves: (bits & Traits.LEAVES) !== 0,
    isCacheable: (bits & Traits.CACHEABLE) !== 0,
    changes: (bits & Traits.CHANGES) !== 0,
    place: (bits >>> Traits.PLACE) & 3,
    advice: len === 0 ? '' : memory.text(advice, advice + len),
  }
  return { traits, known }
}

const specs = new Map<string, Spec>()

/**
 * Programs use few names of commands. The limit is for one that makes up names without end.
 */
const SPECS_MAX = 4096

/** Looks a command up by its name, in small letters or capitals. */
export function specOf(name: string): Spec {
  const known = specs.get(name)
  if (known !== undefined) return known
  const tidy = name.trim().replace(/\s+/g, ' ').toUpperCase()
  const spec = specs.get(tidy) ?? new Spec(tidy)
  if (specs.size >= SPECS_MAX) specs.clear()
  specs.set(tidy, spec)
  specs.set(name, spec)
  return spec
}

/** Whether a command may share a connection with others. */
export function isShared(known: Known): boolean {
  return known.place === Place.SHARED
}
