/** What the caller's code throws is the caller's, and must not stop the reading of replies. */
export function guarded(call: () => unknown): void {
  try {
    call()
  } catch (error) {
    process.nextTick(() => {
      throw error
    })
  }
}
