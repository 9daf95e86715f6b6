import { describe, expect, it, vi } from 'vitest';
import { annotations } from '../../../src/api/meta.ts';
import { images, vmConfigs, vmPools, vms } from '../../../src/api/resources.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { condition, reportVm, runningStatus } from '../../support/api.ts';
import { bothWays, ways, type Way } from './bothways.ts';

const installed = bothWays('cli-usecases');
const { spaces, environments, svc3, both } = installed;

function vmNamed(name: string, way: Way): Promise<Vm> {
  return vi.waitFor(() => installed.cluster.client.get(vms, name, spaces[way]), {
    timeout: 60_000,
    interval: 20,
  });
}

describe('a use case is the same whichever way the CLI takes', () => {
  it('a VM configuration has its owner', async () => {
    await both('vmc create mine -i registry.example.com/team/debian:12');
    const owners = await Promise.all(
      ways.map(async (way) => {
        const { metadata } = await installed.cluster.client.get(vmConfigs, 'mine', spaces[way]);
        return metadata.annotations?.[annotations.owner];
      }),
    );
    expect(owners[0]).toBeTruthy();
    expect(owners[1]).toBe(owners[0]);
  });

  it('a pool is made, scaled, shown, named by a VM and deleted', async () => {
    await both('pool create ci -i registry.example.com/team/debian:12 -c 2 --min-idle 2 --max-size 3');
    await both('pool scale ci 3');
    await both('vm deploy of-pool --pool ci --no-wait');
    for (const way of ways) {
      const { spec } = await installed.cluster.client.get(vmPools, 'ci', spaces[way]);
      expect(spec).toMatchObject({ minIdle: 3, maxSize: 3, standby: 'Suspended', template: { cpu: 2 } });
      expect((await vmNamed('of-pool', way)).spec).toMatchObject({ pool: 'ci' });
      const env = environments[way];
      const { stdout } = await svc3(['pool', 'list', '-o', 'name', '-n', spaces[way]], { env });
      expect(stdout.trim()).toBe('ci');
      const refused = await svc3(
        ['vm', 'deploy', 'other', '--pool', 'ci', '-c', '4', '--no-wait', '-n', spaces[way]],
        { env },
      );
      expect(refused.stderr).toMatch(/^svc3: --cpu: .*pool excludes cpu/);
    }
    await both('vm delete of-pool --no-wait');
    await both('pool delete ci');
  });

  it('an image is not deleted under a VM that runs from it by its reference', async () => {
    const reference = `registry.example.com/svc3/used@sha256:${'a'.repeat(64)}`;
    for (const way of ways) {
      const namespace = spaces[way];
      await installed.cluster.client.create(images, {
        metadata: { name: 'used', namespace },
        spec: { source: { blank: { size: '1G' } } },
      });
      await installed.cluster.client.patch(
        images,
        { name: 'used', namespace },
        { type: 'merge', body: { status: { reference } } },
        { subresource: 'status' },
      );
      const vm = await installed.cluster.client.create(vms, {
        metadata: { name: 'user', namespace },
        spec: { image: reference },
      } as never);
      await reportVm(installed.cluster.client, vm, {
        ...runningStatus,
        effective: { ...runningStatus.effective!, image: reference },
      });
    }
    const { vms: cachedVms, images: cachedImages } = installed.api.services.caches;
    await expect
      .poll(() => [
        cachedVms.objects.get('user', spaces.http)?.status?.effective?.image,
        cachedImages.objects.get('used', spaces.http)?.status?.reference,
      ])
      .toEqual([reference, reference]);
    expect(await both('image delete used')).toMatchObject({
      code: 7,
      stderr: 'svc3: image used is in use by VM user\n',
    });
  });

  it('an image is made empty, copied, described and pulled', async () => {
    const reference = 'registry.example.com/team/pulled:12';
    await both('image generate golden --size 1G -d one');
    for (const line of [
      'image copy golden copied -d two -o json',
      'image set-description copied three',
      `remote-image pull ${reference} -d four -o json`,
    ])
      expect(await both(line)).toMatchObject({ code: 0, stderr: '' });
    for (const way of ways) {
      const { items } = await installed.cluster.client.list(images, { namespace: spaces[way] });
      expect(Object.fromEntries(items.map(({ metadata, spec }) => [metadata.name, spec]))).toMatchObject({
        golden: { description: 'one', source: { blank: { size: '1G' } } },
        copied: { description: 'three', source: { image: { name: 'golden' } } },
        pulled: { description: 'four', source: { remote: { reference } } },
      });
    }
  });

  it('an image that is being deleted is not copied', async () => {
    const { client } = installed.cluster;
    for (const way of ways) {
      const key = { name: 'going', namespace: spaces[way] };
      await client.create(images, {
        metadata: { ...key, finalizers: ['test.svc3.dev/kept'] },
        spec: { source: { blank: { size: '1G' } } },
      });
      await client.delete(images, key);
    }
    const { objects } = installed.api.services.caches.images;
    await expect.poll(() => objects.get('going', spaces.http)?.metadata.deletionTimestamp).toBeDefined();
    try {
      expect(await both('image copy going late')).toMatchObject({
        code: 7,
        stderr: 'svc3: image going is being deleted: a copy comes too late\n',
      });
    } finally {
      for (const way of ways) {
        const body = { metadata: { finalizers: null } };
        await client.patch(images, { name: 'going', namespace: spaces[way] }, { type: 'merge', body });
      }
    }
  });

  it('warnings of a VM are no warnings of ports', async () => {
    const reported = ways.map(async (way) => {
      let vm: Vm | undefined;
      await expect
        .poll(async () => {
          vm = (await installed.cluster.client.list(vms, { namespace: spaces[way] })).items.find(
            ({ metadata }) => metadata.name === 'warned',
          );
          return vm;
        })
        .toBeDefined();
      if (vm !== undefined)
        await reportVm(installed.cluster.client, vm, {
          ...runningStatus,
          warnings: ['netBoost has no effect'],
        });
    });
    const [run] = await Promise.all([
      both('vm deploy warned -i registry.example.com/team/debian:12 -o json'),
      ...reported,
    ]);
    expect(run.code).toBe(0);
    expect(run.stdout).not.toContain('portWarnings');
    expect(run.stderr).toBe('');
    expect(JSON.parse(run.stdout)[0].warnings).toEqual(['netBoost has no effect']);
  });

  it('a deploy can wait until the guest answers, which is later than that QEMU runs', async () => {
    const notReady = runningStatus.conditions!.map((one) =>
      one.type === 'Ready'
        ? condition('Ready', 'False', 'GuestNotReady', 'its guest does not answer yet')
        : one,
    );
    const done: Way[] = [];
    const deploying = ways.map(async (way) => {
      const words =
        'vm deploy late -i registry.example.com/team/debian:12 --wait-for reachable -o json'.split(' ');
      const run = await svc3([...words, '-n', spaces[way]], { env: environments[way] });
      done.push(way);
      return run;
    });
    const created = await Promise.all(ways.map((way) => vmNamed('late', way)));
    for (const vm of created)
      await reportVm(installed.cluster.client, vm, { ...runningStatus, conditions: notReady });
    await expect
      .poll(() => installed.api.services.caches.vms.objects.get('late', spaces.http)?.status?.powerState)
      .toBe('Running');
    expect(done).toEqual([]);
    for (const vm of created) await reportVm(installed.cluster.client, vm, runningStatus);
    for (const run of await Promise.all(deploying)) expect(run).toMatchObject({ code: 0 });
  });

  it('a guest that does not answer in time leaves its VM running, and is told with the reason', async () => {
    const notReady = [
      condition('Booted', 'True'),
      condition('Ready', 'False', 'GuestNotReady', 'TCP port 80 is silent'),
    ];
    const request = { name: 'silent', image: 'registry.example.com/team/debian:12', timeout: 1 };
    const deploying = installed.api.call('POST', `/api/v1/namespaces/${spaces.http}/vms?wait=reachable`, {
      token: installed.cluster.adminToken,
      body: request,
    });
    const vm = await vmNamed('silent', 'http');
    await reportVm(installed.cluster.client, vm, { ...runningStatus, conditions: notReady });
    // The time that is left is counted from the deploy: a minute, the least that a request can say.
    const answer = await deploying;
    expect(answer.status).toBe(504);
    expect(answer.json).toMatchObject({
      message: expect.stringContaining(
        'was not reachable within its timeout and stays: TCP port 80 is silent',
      ),
    });
    expect(
      (await installed.cluster.client.get(vms, 'silent', spaces.http)).metadata.deletionTimestamp,
    ).toBeUndefined();
  });

  it('what a commit says of the image is held to the same limit', async () => {
    expect(await both(`vm commit nothing -d ${'x'.repeat(1025)}`)).toMatchObject({ code: 2 });
  });
});
