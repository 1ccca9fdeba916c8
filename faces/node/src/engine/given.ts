/** Why this can't be the settings of a client; undefined if it can. */
export function notSettings(given: unknown): string | undefined {
  if (given === undefined || typeof given === 'string') return undefined
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return undefined
  const what = given === null ? 'null' : Array.isArray(given) ? 'an array' : `a ${typeof given}`
  return `settings are a URL or an object, and not ${what}`
}
