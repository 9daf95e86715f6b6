import { command, type Command } from '../command.ts';
import { deleteAll } from '../deletion.ts';
import { kindOptions, kindSettingsOf } from '../kindoptions.ts';
import { listOptions, showNamespacedList } from '../listing.ts';
import { namingOptions, settingsOf, settingsOptions, withoutUndefined } from '../settings.ts';
import { usageError } from '../usage.ts';
import { vmPoolView } from '../views.ts';

const { subdomain: _subdomain, ...templateOptions } = settingsOptions;
// They need a Persistent disk, which no pool has.
const {
  'storage-class': _storageClass,
  'when-deleted': _whenDeleted,
  'suspend-to': _suspendTo,
  'on-eviction': _onEviction,
  ...templateKindOptions
} = kindOptions;
const standbys = { suspended: 'Suspended', running: 'Running' } as const;

const poolCreate = command({
  path: ['pool', 'create'],
  summary: 'Create a VM pool: guests that boot now and wait for VMs',
  description:
    'The settings are those of every VM of the pool; svc3 vm deploy --pool takes a guest that waits. What is given here overrides the configuration; an empty --iso is no medium.',
  arguments: { name: { summary: 'Name of the pool' } },
  options: {
    config: {
      kind: 'text',
      placeholder: 'CONFIG',
      summary: 'VM configuration of the namespace to start from',
      complete: 'vmConfigs',
    },
    ...templateOptions,
    ...templateKindOptions,
    'min-idle': {
      kind: 'integer',
      unit: 'guests',
      placeholder: 'N',
      summary: 'Booted guests that wait for VMs',
      fallback: 1,
    },
    'max-size': {
      kind: 'integer',
      unit: 'guests',
      placeholder: 'N',
      summary: 'Waiting guests and VMs of the pool together; else there is no bound',
    },
    standby: {
      kind: 'choice',
      choices: ['suspended', 'running'],
      summary: 'Whether a waiting guest is paused or runs on; else it is paused',
    },
    'serve-config': {
      kind: 'flag',
      summary: 'Serve VMs as well that name CONFIG and ask for nothing else',
    },
  },
  examples: [
    { line: 'svc3 pool create ci -i debian-12 -c 2 -m 4 --min-idle 3', summary: 'Three guests wait' },
    {
      line: 'svc3 pool create jobs --config builder --serve-config --max-size 20',
      summary: 'For everybody who deploys from a configuration',
    },
  ],
  async run({ out, namespace, service }, { arguments: { name }, options }) {
    if (options.config === undefined && options.image === undefined)
      throw usageError('one of --config, --image is needed; see svc3 pool create --help');
    const [{ vmPools }, ns] = await Promise.all([service(), namespace()]);
    const said = withoutUndefined({
      ...settingsOf(options),
      ...(await kindSettingsOf(options)),
      vmConfig: options.config,
      nodeName: options.node,
      minIdle: options['min-idle'],
      maxSize: options['max-size'],
      standby: options.standby === undefined ? undefined : standbys[options.standby],
      serveConfig: options['serve-config'] ? true : undefined,
    });
    const created = await namingOptions(() => vmPools.create(ns, { ...said, name }));
    await out.item(vmPoolView, created);
  },
});

const poolList = command({
  path: ['pool', 'list'],
  summary: 'List the VM pools of a namespace',
  options: listOptions,
  onlyShows: true,
  examples: [
    { line: 'svc3 pool list', summary: 'All pools of the namespace' },
    { line: 'svc3 pool list --watch', summary: 'And every change' },
  ],
  run: (context, { options }) => showNamespacedList(context, vmPoolView, ({ vmPools }) => vmPools, options),
});

const poolGet = command({
  path: ['pool', 'get'],
  summary: 'Show one VM pool',
  arguments: { name: { summary: 'Name of the pool', complete: 'vmPools' } },
  onlyShows: true,
  examples: [
    { line: 'svc3 pool get ci', summary: 'As a table' },
    { line: 'svc3 pool get ci -o json | jq .idle', summary: 'Guests that wait' },
  ],
  async run({ out, namespace, service }, { arguments: { name } }) {
    const [{ vmPools }, ns] = await Promise.all([service(), namespace()]);
    await out.item(vmPoolView, await vmPools.get(ns, name));
  },
});

const poolScale = command({
  path: ['pool', 'scale'],
  summary: 'Change how many guests of a VM pool wait',
  arguments: {
    name: { summary: 'Name of the pool', complete: 'vmPools' },
    count: { summary: 'Booted guests that wait for VMs' },
  },
  options: {
    'max-size': {
      kind: 'integer',
      unit: 'guests',
      placeholder: 'N',
      summary: 'Waiting guests and VMs of the pool together; else it stays as it is',
    },
  },
  examples: [
    { line: 'svc3 pool scale ci 5', summary: 'Five guests wait' },
    { line: 'svc3 pool scale ci 0', summary: 'None, over the weekend' },
  ],
  async run({ out, namespace, service }, { arguments: { name, count }, options }) {
    if (!/^(0|[1-9]\d{0,2})$/.test(count))
      throw usageError(`COUNT: "${count}" is not a number from 0 to 500`);
    const [{ vmPools }, ns] = await Promise.all([service(), namespace()]);
    const maxSize = options['max-size'];
    const bound = maxSize === undefined ? {} : { maxSize };
    await vmPools.scale(ns, name, { minIdle: Number(count), ...bound });
    await out.done('vmpool', name, `${count} guests of pool ${name} are to wait`);
  },
});

const poolDelete = command({
  path: ['pool', 'delete'],
  summary: 'Delete VM pools with the guests that wait; their VMs stay as they are',
  arguments: { name: { summary: 'Names of the pools', variadic: true, complete: 'vmPools' } },
  examples: [{ line: 'svc3 pool delete ci', summary: 'One pool' }],
  async run(context, { arguments: { name } }) {
    const [{ vmPools }, ns] = await Promise.all([context.service(), context.namespace()]);
    await deleteAll(context, 'vmpool', name, (each) => vmPools.delete(ns, each));
  },
});

export const commands: readonly Command[] = [poolCreate, poolList, poolGet, poolScale, poolDelete];
