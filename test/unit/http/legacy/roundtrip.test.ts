import { expect, test } from 'vitest';
import type { VmConfig } from '../../../../src/api/vmconfig.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { aGateway } from './builders.ts';

const path = '/resources/vm/configs/{vmconfig}';

/** What `vm/configs` shows of a configuration. */
async function shown(spec: VmConfig['spec']): Promise<object> {
  const config = { metadata: storedMeta({ name: 'golden', namespace: 'team' }), spec };
  const { fields } = await aGateway({ cached: { configs: [config] } }).ask('GET', path, {
    params: { vmconfig: 'golden' },
  });
  const configs = fields?.['configs'] as object[] | undefined;
  return configs?.[0] ?? {};
}

/** The spec that `vm/create` makes of a body, and what it warns of. */
async function made(body: object): Promise<{ spec: VmConfig['spec']; warnings: readonly string[] }> {
  const { ask, writes, warnings } = aGateway({});
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
