/** The clock of all deadlines: milliseconds since the process began. */
export const clock = (): number => performance.now()

/** The delay of a timer for a deadline: rounded up, and at most the longest that Node takes. */
export function timeUntil(deadline: number): number {
  return Math.min(Math.max(1, Math.ceil(deadline - clock())), LONGEST)
}

const LONGEST = 0x7fffffff
