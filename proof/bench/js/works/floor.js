// What was recorded of one of ours, sent again: a request follows each answer, or a quarter of
// those on their way follow when as many have been answered.
'use strict'

function replay(share) {
  return {
    run(client, { inFlight }) {
      return client.replay(inFlight, Math.max(1, Math.floor(inFlight * share)))
    },
    validate: (client) => client.checksum,
  }
}

module.exports = { floor: replay(0), floor_by_quarters: replay(0.25) }
