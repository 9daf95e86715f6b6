import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Backends, HttpTarget } from '../../../src/cli/service/open.ts';
import { run } from './environment.ts';

let home: string;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc3-way-'));
});
afterEach(() => rm(home, { recursive: true, force: true }));

async function configured(config: object): Promise<void> {
  await mkdir(join(home, '.config/svc3'), { recursive: true });
  await writeFile(join(home, '.config/svc3/config.json'), JSON.stringify(config));
}

/** Which way `vm list` takes, and with which token and authority. */
async function way(words: readonly string[] = [], variables: Record<string, string> = {}): Promise<string> {
  let taken = 'none';
  const connections: Backends = {
    openKubernetes(target) {
      taken = `kubernetes ${target.kubeconfig}`;
      return Promise.reject(new Error('enough'));
    },
    openServer: () => Promise.reject(new Error('not asked for')),
    async openHttp(target: HttpTarget) {
      const token = await target.token().catch(() => 'minted');
      taken = ['http', target.baseUrl, token, target.caFile].filter((part) => part !== undefined).join(' ');
      throw new Error('enough');
    },
  };
  await run(
    ['vm', 'list', '-n', 'x', ...words],
    { home, variables: { KUBECONFIG: '/k', ...variables } },
    connections,
  );
  return taken;
}

describe('the way to svc3', () => {
  it('is the kubeconfig where nothing is configured', async () => {
    expect(await way()).toBe('kubernetes /k');
    expect(await way(['--kubeconfig', '/other'])).toBe('kubernetes /other');
  });

  it('is HTTP where an address and a token are configured', async () => {
    await configured({ baseUrl: 'https://svc3.example.com/', token: 't', caFile: '/ca' });
    expect(await way()).toBe('http https://svc3.example.com t /ca');
  });

  it('is the kubeconfig where only an address is configured', async () => {
    await configured({ baseUrl: 'https://svc3.example.com' });
    expect(await way()).toBe('kubernetes /k');
  });

  it('is HTTP with the token of the environment', async () => {
    expect(await way([], { SVC3_API_URL: 'https://a.example.com', SVC3_TOKEN: 'e' })).toBe(
      'http https://a.example.com e',
    );
  });

  it('never sends a saved token to another address than its own', async () => {
    await configured({ baseUrl: 'https://svc3.example.com', token: 'canary', caFile: '/ca' });
    expect(await way(['--api-url', 'https://evil.example.com'])).not.toContain('canary');
    expect(await way([], { SVC3_API_URL: 'https://evil.example.com' })).not.toContain('canary');
  });

  it('is refused in one line where the address is none, or the file is broken', async () => {
    expect(await run(['vm', 'list', '--api-url', 'svc3.example.com'], { home })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('is not an address'),
    });
    await mkdir(join(home, '.config/svc3'), { recursive: true });
    await writeFile(join(home, '.config/svc3/config.json'), '{"token":"canary"');
    const broken = await run(['vm', 'list'], { home });
    expect(broken).toMatchObject({ code: 2, stderr: expect.stringContaining('is not valid JSON') });
    expect(broken.stderr).not.toContain('canary');
  });
});
