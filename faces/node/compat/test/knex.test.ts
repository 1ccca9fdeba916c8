import { compare } from '../support/compare'

compare('knex')
