// A program on its own: `node build/test/chaos/main.js '{"face": "modern", …}'` prints its report as JSON.

import { DropIn } from './drop-in'
import { Modern } from './modern'
import { run, type Report, type Setting } from './run'

export function chaos(setting: Setting): Promise<Report> {
  return run(setting, (stage) => (setting.face === 'modern' ? new Modern(stage) : new DropIn(stage)))
}

if (require.main === module) {
  const setting = JSON.parse(process.argv[2] ?? '{}') as Setting
  void chaos(setting).then((report) => console.log(JSON.stringify(report)))
}
