import { Call } from './call'
import { RedisError } from './error'
import { bare, begin, isError, next, position, skip } from './reply'
import { specOf } from './spec'

/** Asks a node for the topology of its cluster. */
export class Question extends Call {
  readonly #told: (start: number, len: number) => void

  /** `told` gets the address and the length of the reply. */
  constructor(told: (start: number, len: number) => void, failed: (error: RedisError) => void) {
    super(specOf('CLUSTER SLOTS'), [], HOW, undefined, () => {}, failed)
    this.#told = told
  }

  override take(): void {
    const start = bare(position())
    const end = skip(start)
    this.replied = true
    if (isError(start)) {
      begin(start)
      this.reject(next(false, false, this.spec.name) as RedisError)
    } else if (!this.settled) {
      this.resolve(undefined)
      this.#told(start, end - start)
    }
    begin(end)
  }
}

/** `timeout`: how long a node may take to answer, in milliseconds. */
const HOW = { bytes: false, repeatable: true, alone: false, timeout: 3_000, signal: undefined }
