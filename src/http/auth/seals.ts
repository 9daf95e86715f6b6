import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Sealer } from '../call/services.ts';

const algorithm = 'aes-256-gcm';
const ivBytes = 12;
const tagBytes = 16;
/** More than any token that fits into a request's headers. */
const maxOpenedBytes = 64 * 1024;

/**
 * Texts that only replicas with the same key can make and read: base64url of IV, AES-256-GCM of the deflated JSON, and tag. What was sealed
 * for one purpose is nothing for another.
 *
 * @param key - 32 bytes
 */
export function createSealer(key: Uint8Array): Sealer {
  const dataOf = (purpose: string): Buffer => Buffer.from(`svc3 ${purpose}\n`);
  return {
    keyId: createHash('sha256').update('svc3 key id\n').update(key).digest('hex').slice(0, 8),
    seal(purpose, claims) {
      const iv = randomBytes(ivBytes);
      const cipher = createCipheriv(algorithm, key, iv).setAAD(dataOf(purpose));
      // A token is base64 already: deflated it takes a quarter less, and browsers take 4 KiB.
      const sealed = [iv, cipher.update(deflateRawSync(JSON.stringify(claims))), cipher.final()];
      return Buffer.concat([...sealed, cipher.getAuthTag()]).toString('base64url');
    },
    open(purpose, text) {
      const bytes = Buffer.from(text, 'base64url');
      if (bytes.length < ivBytes + tagBytes) return undefined;
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, ivBytes), {
        authTagLength: tagBytes,
      })
        .setAAD(dataOf(purpose))
        .setAuthTag(bytes.subarray(-tagBytes));
      try {
        const opened = [decipher.update(bytes.subarray(ivBytes, -tagBytes)), decipher.final()];
        const json = inflateRawSync(Buffer.concat(opened), { maxOutputLength: maxOpenedBytes });
        return JSON.parse(json.toString('utf8')) as Readonly<Record<string, unknown>>;
      } catch {
        return undefined;
      }
    },
  };
}
