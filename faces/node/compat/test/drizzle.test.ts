import assert from 'node:assert/strict'

import { compare } from '../support/compare'

compare('drizzle', {
  'trips of a transaction': (ours, theirs) => {
    // begin, insert, update, commit
    assert.equal(theirs['trips of a transaction'], 4)
    assert.equal(ours['trips of a transaction'], 3, 'BEGIN rides with the first statement')
    assert.equal(theirs['trips of an empty transaction'], 2)
    assert.equal(ours['trips of an empty transaction'], 0, 'BEGIN and COMMIT alone are not sent')
  },
})
