import { compare } from '../support/compare'

compare('streams')
