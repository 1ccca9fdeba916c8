import { compare } from '../support/compare'

compare('pg-boss')
