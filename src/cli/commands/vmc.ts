import { command, type Command } from '../command.ts';
import { deleteAll } from '../deletion.ts';
import { kindOptions, kindSettingsOf } from '../kindoptions.ts';
import { listOptions, showNamespacedList } from '../listing.ts';
import { namingOptions, settingsOf, settingsOptions, withoutUndefined } from '../settings.ts';
import { vmConfigView } from '../views.ts';

const vmcCreate = command({
  path: ['vmc', 'create'],
  summary: 'Create a VM configuration',
  arguments: { name: { summary: 'Name of the configuration' } },
  options: { ...settingsOptions, ...kindOptions, image: { ...settingsOptions.image, required: true } },
  examples: [
    { line: 'svc3 vmc create builder -i debian-12 -c 4 -m 8', summary: 'Four CPUs and 8 GiB' },
    {
      line: 'svc3 vmc create render -i registry.example.com/team/render:3 --gpu',
      summary: 'With GPU passthrough',
    },
    {
      line: 'svc3 vmc create plain -i debian-12 --disable-vnc --tag ssd',
      summary: 'No console, on nodes tagged ssd',
    },
  ],
  async run({ out, namespace, service }, { arguments: { name }, options }) {
    const [{ vmConfigs }, ns] = await Promise.all([service(), namespace()]);
    const request = {
      ...withoutUndefined({ ...settingsOf(options), nodeName: options.node }),
      ...(await kindSettingsOf(options)),
      name,
      image: options.image,
    };
    const created = await namingOptions(() => vmConfigs.create(ns, request));
    await out.item(vmConfigView, created);
  },
});

const vmcList = command({
  path: ['vmc', 'list'],
  summary: 'List the VM configurations of a namespace',
  options: listOptions,
  onlyShows: true,
  examples: [
    { line: 'svc3 vmc list', summary: 'All configurations of the namespace' },
    { line: 'svc3 vmc list -o yaml', summary: 'Every field' },
  ],
  run: (context, { options }) =>
    showNamespacedList(context, vmConfigView, ({ vmConfigs }) => vmConfigs, options),
});

const vmcGet = command({
  path: ['vmc', 'get'],
  summary: 'Show one VM configuration',
  arguments: { name: { summary: 'Name of the configuration', complete: 'vmConfigs' } },
  onlyShows: true,
  examples: [
    { line: 'svc3 vmc get builder', summary: 'As a table' },
    { line: 'svc3 vmc get builder -o yaml', summary: 'Every field' },
  ],
  async run({ out, namespace, service }, { arguments: { name } }) {
    const [{ vmConfigs }, ns] = await Promise.all([service(), namespace()]);
    await out.item(vmConfigView, await vmConfigs.get(ns, name));
  },
});

const vmcDelete = command({
  path: ['vmc', 'delete'],
  summary: 'Delete VM configurations; VMs deployed from them stay as they are',
  arguments: { name: { summary: 'Names of the configurations', variadic: true, complete: 'vmConfigs' } },
  examples: [{ line: 'svc3 vmc delete builder', summary: 'One configuration' }],
  async run(context, { arguments: { name } }) {
    const [{ vmConfigs }, ns] = await Promise.all([context.service(), context.namespace()]);
    await deleteAll(context, 'vmconfig', name, (each) => vmConfigs.delete(ns, each));
  },
});

export const commands: readonly Command[] = [vmcCreate, vmcList, vmcGet, vmcDelete];
