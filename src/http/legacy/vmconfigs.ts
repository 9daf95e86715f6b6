import * as z from 'zod';
import type { VmConfig } from '../../api/vmconfig.ts';
import { ifFound, Svc3Error } from '../../errors.ts';
import { callFor, invoke } from '../server/invoke.ts';
import { findVmConfig } from '../call/lookup.ts';
import { createVmConfig, getVmConfig, listVmConfigs } from '../routes/vmconfigs.ts';
import { deployHelp } from './help.ts';
import { byName, canBeName, imageName } from './names.ts';
import { mapped, nothing, type GatewayCall, type Row } from './row.ts';
import { configSettingsOf, settingFields, settings, text } from './vmsettings.ts';
import { configView, imageNamed } from './vmviews.ts';

const integer = z.int().min(1).max(256);

/** The configurations of the namespace by name; asks for the right to list them first. */
export async function configsOf(call: GatewayCall<unknown>) {
  await callFor(call, listVmConfigs, { params: { namespace: call.namespace } });
  return byName(call.services.caches.vmConfigs.objects.list(call.namespace));
}

/**
 * The configuration of the name, also one of which this replica has not heard yet; asks for the right to list them first.
 *
 * @returns undefined where there is none
 */
export async function configNamed(call: GatewayCall<unknown>, name: string): Promise<VmConfig | undefined> {
  const { namespace, services } = call;
  await callFor(call, listVmConfigs, { params: { namespace } });
  return canBeName(name) ? await ifFound(findVmConfig(services, { namespace, name })) : undefined;
}

const configs = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/vm/configs',
  successor: 'GET NS/vmconfigs',
  link: '/vmconfigs',
  body: nothing,
  bodyKind: 'none',
  async handler(call) {
    const images = call.services.caches.images.objects;
    return { fields: { configs: (await configsOf(call)).map((one) => configView(one, images)) } };
  },
});

const config = mapped({
  kind: 'mapped',
  method: 'GET',
  path: '/resources/vm/configs/{vmconfig}',
  successor: 'GET NS/vmconfigs/{vmconfig}',
  link: '/vmconfigs/{vmconfig}',
  body: nothing,
  bodyKind: 'none',
  async handler(call) {
    const name = call.params['vmconfig'] ?? '';
    await callFor(call, getVmConfig, { params: { namespace: call.namespace, vmconfig: name } });
    const found = await ifFound(findVmConfig(call.services, { namespace: call.namespace, name }));
    if (found === undefined) throw new Svc3Error('NotFound', `${name} config does not exist`);
    return { fields: { configs: [configView(found, call.services.caches.images.objects)] } };
  },
});

/** What 2.4.x kept apart: a disk has one image now, and a CPU is a vCPU. */
function withoutEffect(body: {
  readonly svc_image?: string | undefined;
  readonly svc_vm_name: string;
  readonly svc_cpu_core?: number | undefined;
  readonly vcpu_count?: number | undefined;
}): string[] {
  const { svc_image: image, svc_vm_name: name, svc_cpu_core: cores, vcpu_count: cpus } = body;
  return [
    ...(image === undefined || image === name
      ? []
      : [
          'svc_image has no effect: the disk of a VM has no name of its own, POST /resources/image/save gives it one',
        ]),
    ...(cores === undefined || cpus === undefined || cores === cpus
      ? []
      : [`svc_cpu_core has no effect beside vcpu_count: the VM has ${cpus} CPUs`]),
  ];
}

const create = mapped({
  kind: 'mapped',
  method: 'POST',
  path: '/resources/vm/create',
  successor: 'POST NS/vmconfigs',
  link: '/vmconfigs',
  body: z.object({
    svc_vm_name: text.min(1),
    svc_base_image: text.min(1),
    svc_image: text.optional(),
    svc_cpu_core: integer.optional(),
    vcpu_count: integer.optional(),
    memory: z.union([z.number().min(0).max(16_384), z.literal('automatic')]).optional(),
    ...settings,
  }),
  bodyKind: 'json',
  fields: { ...settingFields, name: 'svc_vm_name', image: 'svc_base_image', cpu: 'vcpu_count' },
  async handler(call) {
    const { body, namespace, services } = call;
    const image = imageName(body.svc_base_image, 'svc_base_image');
    const { architecture } = imageNamed(image, namespace, services.caches.images.objects)?.status ?? {};
    for (const text of withoutEffect(body)) call.warn(text);
    await invoke(call, createVmConfig, {
      params: { namespace },
      body: {
        ...configSettingsOf(body, architecture, call.warn),
        name: body.svc_vm_name,
        image,
        cpu: body.vcpu_count ?? body.svc_cpu_core,
        memory: body.memory === 'automatic' ? undefined : body.memory,
      },
    });
    // Only who may create here is told what the image is for.
    if (architecture === 'arm64' && body.gpu_passthrough === false)
      call.warn('gpu_passthrough has no effect: on arm64 GPU passthrough is always enabled');
    return {
      status: 201,
      message: 'Successfully Created',
      help: deployHelp(call.baseUrl, body.svc_vm_name, '<SVC_NODE_NAME>'),
    };
  },
});

/** Rows of configurations. */
export const vmConfigRows: readonly Row[] = [configs, config, create];
