/** Numbers from 0 to below 1 that look random and are the same for the same seed (mulberry32). */
export function randomOf(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Whole numbers from 0 to below a limit, from the same generator. */
export function belowOf(seed: number): (limit: number) => number {
  const next = randomOf(seed)
  return (limit) => Math.floor(next() * limit)
}
