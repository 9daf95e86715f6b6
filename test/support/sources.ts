import { fileURLToPath } from 'node:url';
import { hashOf } from '../../src/localcluster/images/hash.ts';

const parts = ['src', 'containers', 'charts', 'package-lock.json', 'rolldown.config.ts'];

/** Changes with everything that the software in a local cluster is made of. */
export function sourcesHash(): Promise<string> {
  return hashOf(parts.map((part) => fileURLToPath(new URL(`../../${part}`, import.meta.url))));
}
