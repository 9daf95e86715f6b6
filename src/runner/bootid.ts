import { readFileSync } from 'node:fs';

/** Tells one start of the node from another; empty where the kernel does not say. All nodes of a local cluster have the same. */
export function readBootId(path = '/proc/sys/kernel/random/boot_id'): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}
