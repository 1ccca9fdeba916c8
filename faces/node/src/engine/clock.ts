/** The clock of all deadlines: milliseconds since the process began. */
export const clock = (): number => performance.now()

/** The delay of a timer for a deadline: rounded up, and at most the longest that Node takes. */
export function timeUntil(deadline: number): number {
  return delay(Math.max(1, Math.ceil(deadline - clock())))
}

/** The delay of a timer: at most the longest that Node takes, since it fires at once beyond that. */
export function delay(ms: number): number {
  return Math.min(ms, LONGEST)
}

const LONGEST = 0x7fffffff
