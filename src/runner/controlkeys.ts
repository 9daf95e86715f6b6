import type { KeyObject } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { parseControlKeys } from '../runnerapi/token.ts';

/** The installation's public keys as the downward API shows them; read again when the file has changed. */
export function createKeyReader(path: string): () => Promise<readonly KeyObject[]> {
  let keys: readonly KeyObject[] = [];
  let seen = '';
  return async () => {
    const found = await stat(path).catch(() => undefined);
    const version = found === undefined ? 'none' : `${found.ino} ${found.mtimeMs} ${found.size}`;
    if (version !== seen) {
      keys = parseControlKeys(await readFile(path, 'utf8').catch(() => ''));
      seen = version;
    }
    return keys;
  };
}
