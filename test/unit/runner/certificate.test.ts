import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureCertificate } from '../../../src/runner/certificate.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'svc3-certificate-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

describe('the certificate of a runner', () => {
  test('is the same for one pod, also after its node was restarted, and another for the next pod', async () => {
    const place = { path: join(dir, 'one.json'), vmUid: 'vm', podUid: 'first' };
    const { fingerprint } = await ensureCertificate(place);
    expect((await ensureCertificate(place)).fingerprint).toBe(fingerprint);
    const next = await ensureCertificate({ ...place, podUid: 'second' });
    expect(next.fingerprint).not.toBe(fingerprint);
    expect((await ensureCertificate({ ...place, podUid: 'second' })).fingerprint).toBe(next.fingerprint);
  });

  test('is made anew where what was kept cannot be read', async () => {
    const path = join(dir, 'torn.json');
    await writeFile(path, '{"key":"-----BEGIN');
    expect((await ensureCertificate({ path, vmUid: 'vm', podUid: 'first' })).certificate).toContain('BEGIN');
  });
});
