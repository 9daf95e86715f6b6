import { X509Certificate } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Backends } from '../../../src/cli/service/open.ts';
import type { Service } from '../../../src/cli/service/types.ts';
import { selfSigned } from '../../../src/http/server/certificate.ts';
import { run } from './environment.ts';

let home: string;
const url = 'https://svc3.example.com/ui#code=c';
const openHttp: Backends['openHttp'] = () =>
  Promise.resolve({
    pageUrl: () => Promise.resolve(url),
    vms: { consoleUrl: () => Promise.resolve(url) },
    close: () => Promise.resolve(),
  } as unknown as Service);

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-ui-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

function shown(words: string, caFile?: string) {
  const variables = {
    SVC3_API_URL: 'https://svc3.example.com',
    SVC3_TOKEN: 't',
    SVC3_DEFAULT_NAMESPACE: 'x',
    ...(caFile === undefined ? {} : { SVC3_CA_FILE: caFile }),
  };
  return run(words.split(' '), { home, variables }, { openHttp });
}

describe.each(['ui', 'vm console build-1'])('svc3 %s', (words) => {
  it('says which file a browser is to trust, and the fingerprint of its certificate', async () => {
    const file = join(home, 'ca.pem');
    const { cert } = await selfSigned(['svc3.example.com']);
    await writeFile(file, `svc3\n${cert}`);
    const { code, stdout, stderr } = await shown(words, file);
    expect([code, stdout]).toEqual([0, `${url}\n`]);
    expect(stderr).toBe(
      `Where the browser warns of the certificate: import ${file} as an authority, or compare its SHA-256 fingerprint with what the browser shows: ${new X509Certificate(cert).fingerprint256}\n`,
    );
  });

  it('tells no fingerprint where the file has several certificates', async () => {
    const file = join(home, 'ca.pem');
    const certificates = await Promise.all(['a', 'b'].map(async (name) => (await selfSigned([name])).cert));
    await writeFile(file, certificates.join(''));
    expect((await shown(words, file)).stderr).toBe(
      `Where the browser warns of the certificate: import ${file} as an authority\n`,
    );
  });

  it('says nothing of it where the authorities of the machine are enough, nor to a script', async () => {
    expect(await shown(words)).toEqual({ code: 0, stdout: `${url}\n`, stderr: '' });
    const file = join(home, 'ca.pem');
    await writeFile(file, (await selfSigned(['svc3.example.com'])).cert);
    const script = await shown(`${words} -o json`, file);
    expect([script.code, script.stderr, JSON.parse(script.stdout)]).toEqual([0, '', { url }]);
  });
});
