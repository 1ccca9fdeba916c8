import { compare } from '../support/compare'

compare('surface')
