import { type Leaver, OUTCOMES, type Outcome } from './choices'
import { Member } from './exports'
import { memory } from './memory'

/**
 * The outcome of a failure that leaves a transaction which was not committed, or a savepoint that
 * was not kept. `hasLeft`: something of it may have reached the server (`Act.HAS_LEFT`).
 */
export function outcomeLeft(failure: Outcome, by: Leaver, hasLeft: boolean): Outcome {
  return outcomeAt(memory.engine.onetrip_outcome_left(numberOf(failure), by, Number(hasLeft)))
}

/** How a statement of a segment ended by itself; `undefined`: without an error, as far as it went. */
export type MemberEnd = Outcome | 'skipped' | undefined

/** Why a segment failed. */
export interface SegmentFailure {
  /** The place of the statement that is the cause; -1 if none is. */
  readonly cause: number
  /** What is known of the whole, and so of each statement that has no error of its own. */
  readonly outcome: Outcome
}

/**
 * What becomes of a segment. `end`: the outcome of its sync point, if that failed, or that of the
 * refusal because of which nothing was sent. `undefined` if it succeeded.
 */
export function failureOfSegment(
  members: readonly MemberEnd[],
  end: Outcome | undefined,
): SegmentFailure | undefined {
  const ends = Uint8Array.from(members, (it) => (it === 'skipped' ? Member.SKIPPED : numberOf(it)))
  const said = memory.lend(ends, (start) =>
    memory.engine.onetrip_segment_failure(start, ends.length, numberOf(end)),
  )
  return said === 0 ? undefined : { cause: (said >> 3) - 1, outcome: outcomeAt(said & 7) }
}

/** The outcome of a statement over all its attempts, of which the last one failed so. */
export function outcomeOverAttempts(last: Outcome, mayHaveRun: boolean): Outcome {
  if (!mayHaveRun) return last
  return outcomeAt(memory.engine.onetrip_outcome_over_attempts(numberOf(last), 1))
}

function numberOf(outcome: Outcome | undefined): number {
  return OUTCOMES.indexOf(outcome)
}

function outcomeAt(number: number): Outcome {
  return OUTCOMES[number] ?? 'Unknown'
}
