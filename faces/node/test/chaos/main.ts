// A program: `node build/test/chaos/main.js '{"face": "modern", …}'` prints a line when it has
// begun, and its report as the last line.

import { DropIn } from './drop-in'
import { Modern } from './modern'
import { run, type Report, type Setting } from './run'

export function chaos(setting: Setting, begun?: () => void): Promise<Report> {
  const make = setting.face === 'modern' ? Modern : DropIn
  return run(setting, (stage) => new make(stage), begun)
}

if (require.main === module) {
  const setting = JSON.parse(process.argv[2] ?? '{}') as Setting
  const say = (what: unknown): void => console.log(JSON.stringify(what))
  void chaos(setting, () => say({ begun: true })).then(say)
}
