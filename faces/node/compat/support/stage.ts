import type { CountingProxy } from './proxy'

/** What a scenario is given. */
export interface Stage {
  /** A database of its own, for all scenarios of a file. */
  url: string
  /** The same server behind a proxy that counts trips. */
  proxy(): Promise<CountingProxy>
  /** Records what is to be the same with both drivers. */
  see(label: string, value: unknown): void
  /** Records what a promise comes to, its value or its error. */
  settles(label: string, promise: PromiseLike<unknown>): Promise<void>
  /** Records what is to be judged by the test, and may differ. */
  note(label: string, value: unknown): void
}

export type Scenario = (stage: Stage) => Promise<void>

/** What a file of scenarios exports: their names are the names of tests. */
export interface Scenarios {
  [name: string]: Scenario
}
