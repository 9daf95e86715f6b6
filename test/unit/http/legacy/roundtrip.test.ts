import { expect, test } from 'vitest';
import type { Image } from '../../../../src/api/image.ts';
import type { VmConfig } from '../../../../src/api/vmconfig.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { aGateway } from './builders.ts';

const path = '/resources/vm/configs/{vmconfig}';

/** An Image of the namespace. */
const anImage = (name: string, status: NonNullable<Image['status']>): Image => ({
  metadata: storedMeta({ name, namespace: 'team' }),
  spec: { source: { upload: {} } },
  status,
});
const digest = `sha256:${'a'.repeat(64)}`;
const memory = { digest, size: '4Gi', cpuModel: 'any', cpu: 2, accelerator: 'tcg', qemu: '10.0' } as const;
const images = [
  anImage('disk.img', { architecture: 'amd64' }),
  anImage('arm.img', { architecture: 'arm64' }),
  anImage('warm.img', { architecture: 'amd64', digest, memory }),
];

/** What `vm/configs` shows of a configuration, and what `vm/list` does. */
async function views(spec: VmConfig['spec']): Promise<[shown: object, listed: object]> {
  const config = { metadata: storedMeta({ name: 'golden', namespace: 'team' }), spec };
  const { ask } = aGateway({ cached: { configs: [config], images } });
  const one = await ask('GET', path, { params: { vmconfig: 'golden' } });
  const all = await ask('GET', '/resources/vm/configs');
  const list = await ask('GET', '/resources/vm/list');
  const first = (value: unknown): object => (value as object[] | undefined)?.[0] ?? {};
  expect(first(all.fields?.['configs'])).toEqual(first(one.fields?.['configs']));
  return [first(one.fields?.['configs']), first(list.fields?.['virtual_machine_resources'])];
}

async function shown(spec: VmConfig['spec']): Promise<object> {
  const [view] = await views(spec);
  return view;
}

/** The spec that `vm/create` makes of a body, and what it warns of. */
async function made(body: object): Promise<{ spec: VmConfig['spec']; warnings: readonly string[] }> {
  const { ask, writes, warnings } = aGateway({ cached: { images } });
  await ask('POST', '/resources/vm/create', { body });
  const config = writes()[0]?.given as VmConfig | undefined;
  return { spec: config?.spec ?? {}, warnings };
}

test.each<[what: string, body: object]>([
  ['nothing but its image', {}],
  ['a GPU, which turns the console off', { gpu_passthrough: true }],
  ['a console that is off', { vnc_console: false }],
  ['what holds anyway', { vnc_console: true, gpu_passthrough: false, scheduler: 'default', tag: '' }],
  [
    'everything',
    {
      vcpu_count: 4,
      memory: 10,
      system_serial: 'C02XX',
      tag: 'pool',
      tag_required: true,
      scheduler: 'most-allocated',
      iso_image: 'install.iso',
      vnc_console: false,
      gpu_passthrough: true,
    },
  ],
])('a configuration with %s that is read and sent back is the same', async (_what, body) => {
  const first = await made({ svc_vm_name: 'golden', svc_base_image: 'disk.img', ...body });
  const view = await shown(first.spec);
  const second = await made(view);
  expect(second.warnings).toEqual([]);
  // A list says a size also where the configuration says none.
  expect(second.spec).toEqual({ cpu: 3, ...first.spec });
  expect(await shown(second.spec)).toEqual(view);
});

test('on ARM a configuration has a GPU, as its VMs do, and says no other thing once it is sent back', async () => {
  const { spec } = await made({ svc_vm_name: 'golden', svc_base_image: 'arm.img' });
  const [view, listed] = await views(spec);
  expect([view, listed]).toEqual([
    expect.objectContaining({ gpu_passthrough: true, vnc_console: true }),
    expect.objectContaining({ gpu_passthrough: true }),
  ]);
  const again = await made(view);
  expect(again).toEqual({ spec: { ...spec, cpu: 3 }, warnings: [] });
  expect(await shown(again.spec)).toEqual(view);
});

test('that a configuration is to have no GPU on ARM is warned of once, where its image is known to be for ARM', async () => {
  const without = (image: string) =>
    made({ svc_vm_name: 'golden', svc_base_image: image, gpu_passthrough: false });
  expect(await without('arm.img')).toEqual({
    spec: { image: 'arm.img' },
    warnings: ['gpu_passthrough has no effect: on arm64 GPU passthrough is always enabled'],
  });
  for (const image of ['disk.img', 'there-is-none', 'r.example.com/team/arm:1'])
    expect((await without(image)).warnings).toEqual([]);
});

test('who may not create a configuration does not learn what the image is for', async () => {
  const { ask, client, warnings } = aGateway({ cached: { images } });
  client.create = () => Promise.reject(new Svc3Error('Forbidden', 'may not'));
  const body = { svc_vm_name: 'golden', svc_base_image: 'arm.img', gpu_passthrough: false };
  await expect(ask('POST', '/resources/vm/create', { body })).rejects.toMatchObject({ reason: 'Forbidden' });
  expect(warnings).toEqual([]);
});

test('nothing is known of an image of a registry', async () => {
  const { spec } = await made({ svc_vm_name: 'golden', svc_base_image: 'r.example.com/team/arm:1' });
  const view = await shown(spec);
  expect(view).toMatchObject({ gpu_passthrough: false });
  expect((await made(view)).spec).toEqual({ ...spec, cpu: 3 });
});

test('a configuration of an image with memory has the CPUs that the guest goes on with', async () => {
  const { spec } = await made({ svc_vm_name: 'golden', svc_base_image: 'warm.img' });
  const [view, listed] = await views(spec);
  expect(view).toMatchObject({ svc_cpu_core: 2, vcpu_count: 2, memory: 'automatic' });
  expect(listed).toMatchObject({ cpu: 2, vcpu: 2 });
  expect((await made(view)).spec).toEqual({ ...spec, cpu: 2 });
  expect(await shown({ ...spec, cpu: 4 })).toMatchObject({ vcpu_count: 4 });
});

test.each(['N/A', ''])('system_serial %j of a deploy or a configuration is none', async (serial) => {
  const { spec } = await made({ svc_vm_name: 'golden', svc_base_image: 'disk', system_serial: serial });
  expect(spec).not.toHaveProperty('systemSerial');
});

test('an attached disk is still warned of', async () => {
  const body = { svc_vm_name: 'golden', svc_base_image: 'disk', attached_disk: 'storage.img' };
  expect((await made(body)).warnings).toEqual([
    'attached_disk has no effect: attached disks no longer exist',
  ]);
});
