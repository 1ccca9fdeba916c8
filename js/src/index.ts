export { Link } from './engine/link'
