import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import { vms } from '../../../src/api/resources.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { json, ok, svc3Program } from './process.ts';

let cluster: TestCluster;
let ns: string;
const { svc3, home } = svc3Program({});
const env = () => ({ KUBECONFIG: cluster.kubeconfigPath });

beforeAll(async () => {
  cluster = await testCluster();
  ns = await uniqueNamespace(cluster.client, 'cli-program');
  await create('one');
  await create('two');
});

const create = (name: string) =>
  cluster.client.create(vms, {
    metadata: { name, namespace: ns },
    spec: { image: 'debian', powerState: 'Running' },
  });

describe('the program', () => {
  it('answers without a cluster what needs none', async () => {
    expect(await ok(svc3(['version']))).toBe('svc3 3.0.0\n');
    expect(await ok(svc3(['completion', 'bash']))).toContain('complete -o default -F _svc3 svc3');
    expect(await ok(svc3(['vm', 'deploy', '--help']))).toContain('Examples:');
  });

  it('says in one line what is missing when there is no cluster', async () => {
    const { code, stdout, stderr } = await svc3(['vm', 'list']);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/^svc3: no cluster: .*svc3 login.*\n$/);
  });

  it('says in one line that the cluster does not answer', async () => {
    const kubeconfig = (await readFile(cluster.kubeconfigPath, 'utf8')).replaceAll(
      cluster.server,
      'https://127.0.0.1:1',
    );
    const missing = await svc3(['vm', 'list', '--kubeconfig', join(home, 'dead')]);
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining('cannot be read') });
    await writeFile(join(home, 'dead'), kubeconfig);
    const dead = await svc3(['vm', 'list', '--kubeconfig', join(home, 'dead')]);
    expect(dead).toMatchObject({ code: 8, stdout: '' });
    expect(dead.stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it('takes the namespace of the flag before that of the environment, the configuration and the kubeconfig', async () => {
    const names = async (words: string[], more: Record<string, string> = {}) =>
      (
        await json<{ name: string }[]>(
          svc3(['vm', 'list', '-o', 'json', ...words], { env: { ...env(), ...more } }),
        )
      ).length;
    expect(await names([], { SVC3_DEFAULT_NAMESPACE: ns })).toBe(2);
    expect(await names(['-n', 'default'], { SVC3_DEFAULT_NAMESPACE: ns })).toBe(0);
    await ok(svc3(['config', 'set', 'namespace', ns]));
    expect(await names([])).toBe(2);
    await ok(svc3(['config', 'set', 'namespace']));
    expect(await names([])).toBe(0);
  });

  it('keeps its configuration in a file of its owner only and never shows the token', async () => {
    await ok(svc3(['user', 'set-token'], { stdin: 'canary-token\n' }));
    const file = join(home, '.config/svc3/config.json');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({ token: 'canary-token' });
    expect(await ok(svc3(['config', 'view', '-o', 'json']))).not.toContain('canary');
    await ok(svc3(['user', 'logout']));
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({});
  });

  it('completes commands, options and names out of the cluster', async () => {
    const complete = async (...words: string[]) => {
      const text = await ok(
        svc3(['__complete', ...words], { env: { ...env(), SVC3_DEFAULT_NAMESPACE: ns } }),
      );
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => line.split('\t')[0]);
    };
    expect(await complete('vm', 'de')).toEqual(['deploy', 'delete']);
    // A shell gets no names from a cluster that takes long: the machine may be that slow.
    const eventually = { timeout: 60_000 };
    await expect.poll(() => complete('vm', 'get', ''), eventually).toEqual(['one', 'two']);
    await expect.poll(() => complete('vm', 'delete', 'one', 't'), eventually).toEqual(['two']);
    expect(await complete('vm', 'list', '--out')).toEqual(['--output']);
    expect(await complete('vm', 'list', '-o', 'j')).toEqual(['json']);
    await expect.poll(() => complete('vm', 'get', '-n', ns, 'o'), eventually).toEqual(['one']);
  });

  it('follows changes with --watch until it is interrupted', async () => {
    const abort = new AbortController();
    let created = false;
    const onStdout = (text: string) => {
      if (text.includes('watched')) abort.abort();
      if (created || !text.includes('two')) return;
      created = true;
      void create('watched');
    };
    const words = ['vm', 'list', '-n', ns, '--watch', '-o', 'name'];
    const { stdout, stderr } = await svc3(words, { env: env(), signal: abort.signal, onStdout });
    expect({ stdout, stderr }).toEqual({ stdout: 'one\ntwo\nwatched\n', stderr: '' });
  });

  it('ends quietly when its reader has gone', async () => {
    const bin = join(import.meta.dirname, '../../../src/bin/svc3.mjs');
    const child = spawn('sh', ['-c', `"$0" "$1" vm list -n ${ns} --watch | head -1`, process.execPath, bin], {
      env: { PATH: process.env['PATH'] ?? '', HOME: home, ...env() },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    // The program learns that nobody reads when it writes again, so there is always something new to write.
    let count = 0;
    const news = setInterval(() => void create(`late-${(count += 1)}`), 500);
    const outcome = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    clearInterval(news);
    const [stdout, stderr, [code]] = outcome;
    expect({ code, stdout, stderr }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^NAME .*\n$/),
      stderr: '',
    });
  });
});
