'use strict'

/** Runs `one` with as many numbers as there are operations, so many of them at a time. */
async function inFlight({ inFlight: tasks, operations, first }, one) {
  const end = first + operations
  let next = first
  async function task() {
    while (next < end) await one(next++)
  }
  if (tasks === 1) return task()
  await Promise.all(Array.from({ length: tasks }, task))
}

module.exports = { inFlight }
