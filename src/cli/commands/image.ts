import { repositoryOf } from '../../api/repository.ts';
import { isSvc3Error, messageOf } from '../../errors.ts';
import { command, type Command } from '../command.ts';
import { deleteAll } from '../deletion.ts';
import { copyCommand, deleteCommand, describeCommand, getCommand, listCommand } from '../diskcommands.ts';
import { downloadCommand, uploadCommand } from '../disktransfers.ts';
import { architectureOption, descriptionOption, longWorkOptions, showWork } from '../longwork.ts';
import { withoutUndefined } from '../settings.ts';
import { usageError } from '../usage.ts';
import { diskView } from '../views.ts';

const imageGenerate = command({
  path: ['image', 'generate'],
  summary: 'Make an empty image, to install a system on',
  arguments: {
    name: { summary: 'Name of the image' },
    size: { summary: 'Virtual size, e.g. 120G; the same as --size', optional: true },
  },
  options: {
    size: {
      kind: 'text',
      short: 's',
      placeholder: 'SIZE',
      summary: 'Virtual size, e.g. 120G',
      required: true,
    },
    ...descriptionOption,
    ...architectureOption,
    ...longWorkOptions,
  },
  examples: [
    {
      line: 'svc3 image generate blank --size 120G',
      summary: 'For svc3 vm deploy -i blank --iso debian-installer',
    },
  ],
  async run(context, { arguments: { name }, options: { wait, ...said } }) {
    const [{ images }, ns] = await Promise.all([context.service(), context.namespace()]);
    const request = { ...withoutUndefined(said), name, size: said.size };
    await showWork(context, 'image', { begun: await images.generate(ns, request), disks: images, wait });
  },
});

const imagePrune = command({
  path: ['image', 'prune'],
  summary: 'Delete the images that no VM, no VM configuration and no pool uses',
  description:
    'Without --yes it only shows which ones they are. Images that are being made stay, and so do those that they are copied from; an image that is to have the disk of a VM stays as long as the VM is there, whatever it waits for. One that the kept disk of a deleted VM was made on is shown, and stays with --yes.',
  options: {
    'dry-run': { kind: 'flag', summary: 'Only show them, which is the default' },
    yes: { kind: 'flag', short: 'y', summary: 'Delete them' },
  },
  examples: [
    { line: 'svc3 image prune --dry-run', summary: 'What would be deleted' },
    { line: 'svc3 image prune --yes', summary: 'Delete it' },
  ],
  async run(context, { options }) {
    const { out, service, namespace } = context;
    if (options.yes && options['dry-run']) throw usageError('--yes and --dry-run exclude each other');
    const [{ images, vms, vmConfigs, vmPools }, ns] = await Promise.all([service(), namespace()]);
    const [all, pools, machines, configs] = await Promise.all([
      images.list(ns),
      vmPools.list(ns),
      vms.list(ns),
      vmConfigs.list(ns),
    ]);
    const used = [
      ...[...pools, ...machines, ...configs].map(({ image = '' }) => image),
      ...pools.flatMap(({ images: made }) => made ?? []),
      ...all.flatMap(({ copyOf }) => copyOf ?? []),
    ];
    const isSaving = (vm: string | undefined) => vm !== undefined && machines.some(({ name }) => name === vm);
    const unused = all.filter(
      ({ name, state, saveOf }) => state !== 'Updating' && !isSaving(saveOf) && !isUsed(name, ns, used),
    );
    if (!options.yes || unused.length === 0) {
      await out.list(diskView('image'), unused);
      return;
    }
    context.ifInterrupted(
      'no longer waiting; deletions that have begun go on: svc3 image list shows what is left',
    );
    await deleteAll(
      context,
      'image',
      unused.map(({ name }) => name),
      (name) => images.delete(ns, name, context.signal).catch(stays),
    );
  },
});

/** What uses it cannot all be listed here, as claims of deleted VMs cannot: the deletion is refused then. */
function stays(error: unknown): string {
  if (!isSvc3Error(error, 'Conflict')) throw error;
  return `${messageOf(error)}: it stays`;
}

/** By name, or by the repository in the store that a VM was pinned to when its configuration named it. */
function isUsed(name: string, namespace: string, used: readonly string[]): boolean {
  return used.some((image) => image === name || repositoryOf(image).endsWith(`/${namespace}/${name}`));
}

export const commands: readonly Command[] = [
  listCommand('image'),
  getCommand('image'),
  imageGenerate,
  copyCommand('image'),
  describeCommand('image'),
  uploadCommand('image'),
  downloadCommand('image'),
  deleteCommand('image'),
  imagePrune,
];
