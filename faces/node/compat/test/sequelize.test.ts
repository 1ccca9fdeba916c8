import assert from 'node:assert/strict'

import { compare } from '../support/compare'

compare('sequelize', {
  'trips of a transaction': (ours, theirs) => {
    // START TRANSACTION, insert, update, COMMIT
    assert.equal(theirs['trips of a transaction'], 4)
    assert.equal(ours['trips of a transaction'], 3, 'BEGIN rides with the first statement')
  },
})
