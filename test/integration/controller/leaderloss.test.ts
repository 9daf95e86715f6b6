import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { leases } from '../../../src/api/resources.ts';
import type { LeaderElectorOptions } from '../../../src/controller/leader.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';
import type { TestCluster } from '../../support/cluster.ts';
import { candidate } from '../../support/election.ts';
import type { Candidate } from '../../support/election.ts';
import { faultCluster } from '../../support/faultcluster.ts';

let cluster: TestCluster;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'leader');
});

const within = { timeout: 60_000 };

const take = (name: string, identity: string, options: Partial<LeaderElectorOptions> = {}): Candidate =>
  candidate({ client: cluster.client, namespace, name, identity, ...options });

const holder = async (name: string): Promise<string | undefined> =>
  (await cluster.client.get(leases, name, namespace)).spec?.holderIdentity;

describe('processes', () => {
  const start = (name: string, identity: string): { child: ChildProcess; lines: string[] } => {
    const script = path.join(import.meta.dirname, '../../support/leaderprocess.ts');
    const child = spawn(process.execPath, [script, cluster.kubeconfigPath, namespace, name, identity], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines: string[] = [];
    child.stdout.on('data', (chunk: Buffer) => lines.push(...chunk.toString('utf8').trim().split('\n')));
    const ended = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await ended;
    });
    return { child, lines };
  };

  test('one that is killed is followed by another, one that is terminated ends with code 0', async () => {
    const a = start('crash', 'a');
    await expect.poll(() => a.lines, within).toEqual(['leads']);
    const b = start('crash', 'b');
    a.child.kill('SIGKILL');
    await expect.poll(() => b.lines, within).toContain('leads');
    expect(await holder('crash')).toBe('b');
    const exited = once(b.child, 'exit');
    b.child.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    expect(b.lines).toEqual(['leads', 'stopped']);
    expect(await holder('crash')).toBe('');
  });
});

describe('a leader cut off from the server', () => {
  test('closes its gate before anybody else can lead, stops its work and says that it lost', async () => {
    const { proxy, proxied } = await faultCluster(cluster);
    const a = take('cutoff', 'a', { client: proxied });
    await expect.poll(a.works, within).toBe(true);
    const b = take('cutoff', 'b');
    let overlap = false;
    const watch = setInterval(() => {
      overlap ||= b.works() && a.elector.gate.isHeld();
    }, 5);
    const lost = expect(a.run).rejects.toThrow(`the lease ${namespace}/cutoff was lost`);
    proxy.inject(({ path: about }) => about.includes('/leases'), { kind: 'hang' });
    await lost;
    expect(a.works()).toBe(false);
    await expect.poll(b.works, within).toBe(true);
    clearInterval(watch);
    expect(overlap).toBe(false);
  });
});
