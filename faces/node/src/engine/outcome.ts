import { OUTCOMES, type Outcome } from './choices'
import { memory } from './memory'

/**
 * The outcome of a failure that leaves its transaction, which was not committed. `isUndone`: the
 * server has answered the ROLLBACK.
 */
export function outcomeLeft(failure: Outcome, isUndone: boolean): Outcome {
  return outcomeAt(memory.engine.onetrip_outcome_left(numberOf(failure), Number(isUndone)))
}

/**
 * The outcome of a pipeline of which a statement failed so. `end`: the outcome of its sync point,
 * if that failed, too.
 */
export function outcomeOfPipeline(statement: Outcome, end: Outcome | undefined): Outcome {
  return outcomeAt(memory.engine.onetrip_outcome_of_pipeline(numberOf(statement), numberOf(end)))
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
