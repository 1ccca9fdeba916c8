import { compare } from '../support/compare'

compare('graphile-worker')
