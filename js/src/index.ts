// What `import … from 'onetrip'` gives.
export { Link } from './engine/link'
