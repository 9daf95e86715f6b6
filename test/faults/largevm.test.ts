import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Pod } from '../../src/api/core.ts';
import { limits } from '../../src/api/meta.ts';
import type { VmSpecInput } from '../../src/api/vm.ts';
import { allowBootTime, aPod, startRunner } from '../integration/runner/harness.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace } from '../support/cluster.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';

/** A VM with 35 metadata values of 4,000 bytes ended as `argument list too long`, again and again. */

allowBootTime();

let world: VmWorld;
let operator: TestOperator;
let api: TestApi;

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1' });
  operator = await startVmOperator(world.client);
  api = await startTestApi((await testCluster()).client);
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await world?.stop();
});

/** Values with what a shell, an environment variable or JSON would make something else of. */
function values(count: number, bytes: number, head = '$$(HOSTNAME) "\\\n') {
  return Array.from({ length: count }, (_, index) => ({
    name: `name-${index}`,
    value: `${head}${'v'.repeat(bytes - head.length)}`,
  }));
}

async function podOf(space: VmNamespace, spec: VmSpecInput): Promise<Pod> {
  await space.deploy('vm', spec);
  await expect.poll(() => space.pod('vm'), slow).toBeDefined();
  return (await space.pod('vm'))!;
}

/** The files of the downward API volume, by name. */
function filesOf({ metadata, spec }: Pod): Record<string, string> {
  const items = spec.volumes?.flatMap(({ downwardAPI }) => downwardAPI?.items ?? []) ?? [];
  return Object.fromEntries(
    items.map(({ path, fieldRef }) => {
      const [, name = ''] = /^metadata\.annotations\['(.+)'\]$/.exec(fieldRef?.fieldPath ?? '') ?? [];
      return [path, metadata.annotations?.[name] ?? ''];
    }),
  );
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('what a VM gives its guest', () => {
  test('reaches it whole: 35 values of 4,000 bytes', async () => {
    const space = await world.namespace('large');
    const metadata = values(35, 4000);
    const pod = await podOf(space, { metadata });
    const env = pod.spec.containers[0]?.env?.flatMap(({ name, value }) =>
      value === undefined ? [] : [[name, value]],
    );
    // The kernel's own word on what a container may be started with.
    expect(spawnSync('/bin/true', { env: Object.fromEntries(env ?? []) }).error).toBeUndefined();

    const files = filesOf(pod);
    const { metadata: lists } = JSON.parse(files['effective'] ?? '{}');
    const runner = await startRunner(
      await aPod({ ...JSON.parse(files['runner-spec'] ?? '{}'), metadata: lists, memoryMiB: 192 }),
    );
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    // A guest agent's reply is not read beyond 256 KiB: the guest tells a digest of each line.
    const digests = await runner.guest(
      `mkdir -p /tmp/s; mount -t iso9660 -o ro /dev/vdb /tmp/s
       while IFS= read -r line; do printf '%s' "$line" | sha256sum; done < /tmp/s/meta-data`,
    );
    for (const { name, value } of metadata)
      expect(digests).toContain(sha256(`${name}: ${JSON.stringify(value)}`));
  });

  test('fits into the pod at its largest', async () => {
    const space = await world.namespace('largest');
    // Quotes and backslashes, which JSON writes as two bytes each; a key of 2 × 508 bytes, two quotes and a comma.
    const entry = `{"name":"name-00","value":""},`.length;
    const metadata = Array.from({ length: 20 }, (_, index) => ({
      name: `name-${String(index).padStart(2, '0')}`,
      value: '"\\'.repeat(Math.floor((limits.metadataBytes / 20 - entry) / 4)),
    }));
    const sshAuthorizedKeys = Array.from({ length: 32 }, () => '"'.repeat(510) + 'x');
    const tolerations = Array.from({ length: 32 }, (_, index) => ({
      key: `${`${'x'.repeat(60)}.`.repeat(3)}example.com/${index}-${'k'.repeat(50)}`,
      value: 'v'.repeat(63),
      operator: 'Equal' as const,
      effect: 'NoExecute' as const,
      tolerationSeconds: 31_536_000,
    }));
    const ports = Array.from({ length: 32 }, (_, index) => ({
      nodePort: 20_000 + index,
      guestPort: 65_000 + index,
    }));
    const pod = await podOf(space, { metadata, sshAuthorizedKeys, tolerations, ports });
    const { metadata: read } = JSON.parse(filesOf(pod)['effective'] ?? '{}');
    expect(read).toEqual(metadata);
  });

  test.each<[field: string, spec: VmSpecInput, sentence: string]>([
    [
      'metadata',
      { metadata: values(42, 4000) },
      'metadata is too large: as JSON it has at most 163840 bytes',
    ],
    [
      'sshAuthorizedKeys',
      { sshAuthorizedKeys: Array.from({ length: 5 }, () => `ssh-rsa ${'A'.repeat(8000)}`) },
      'sshAuthorizedKeys is too large: as JSON it has at most 32768 bytes',
    ],
  ])('is refused with a sentence beyond that: %s', async (field, spec, sentence) => {
    const space = await world.namespace(`beyond-${field.toLowerCase()}`);
    await expect(space.deploy('vm', spec)).rejects.toMatchObject({
      reason: 'Invalid',
      details: { causes: [{ field: `spec.${field}`, message: expect.stringContaining(sentence) }] },
    });
  });

  test('is refused by /api/v1 with the field that the caller wrote', async () => {
    const { client, adminToken: token } = await testCluster();
    const namespace = await uniqueNamespace(client, 'large');
    const post = (path: string, body: object) =>
      api.call('POST', `/api/v1/namespaces/${namespace}/${path}`, { token, body });
    const image = 'registry.example.com/debian:12';
    const customVMMetadata = Object.fromEntries(values(42, 4000).map(({ name, value }) => [name, value]));
    const sshAuthorizedKeys = Array.from({ length: 5 }, () => `ssh-rsa ${'A'.repeat(8000)}`);
    const answers = [
      await post('vms?wait=false', { name: 'vm', image, customVMMetadata }),
      await post('vms?wait=false', { name: 'vm', image, sshAuthorizedKeys }),
      await post('vmconfigs', { name: 'config', image, customVMMetadata }),
      await post('vmconfigs', { name: 'config', image, sshAuthorizedKeys }),
    ];
    expect(answers.map(({ status, json }) => [status, json.details.causes[0].field])).toEqual([
      [422, 'customVMMetadata'],
      [422, 'sshAuthorizedKeys'],
      [422, 'customVMMetadata'],
      [422, 'sshAuthorizedKeys'],
    ]);
    expect(answers[0]?.json.message).toContain('as JSON it has at most 163840 bytes');
  });
});
