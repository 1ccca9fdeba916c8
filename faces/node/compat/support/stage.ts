import type { CountingProxy } from './proxy'

/** The argument of a scenario. */
export interface Stage {
  /** A database of its own, for all scenarios of a file. */
  url: string
  /** The same server behind a proxy that counts trips. */
  proxy(): Promise<CountingProxy>
  /** Records a value that must be the same with both drivers. */
  see(label: string, value: unknown): void
  /** Records the value or the error of a promise. */
  settles(label: string, promise: PromiseLike<unknown>): Promise<void>
  /** Records a value that may differ, for the test to check. */
  note(label: string, value: unknown): void
}

export type Scenario = (stage: Stage) => Promise<void>

/** The exports of a file of scenarios. Their names are the names of tests. */
export interface Scenarios {
  [name: string]: Scenario
}
