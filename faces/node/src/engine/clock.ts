/** The time that all deadlines are in: milliseconds since the process began. */
export const clock = (): number => performance.now()

/** For a timer: one that comes too early costs a turn, and Node takes no longer ones. */
export function timeUntil(deadline: number): number {
  return Math.min(Math.max(1, Math.ceil(deadline - clock())), LONGEST)
}

const LONGEST = 0x7fffffff
