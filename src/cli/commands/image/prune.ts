import { command } from '../../command.ts';
import { deleteAll } from '../../deletion.ts';
import { usageError } from '../../usage.ts';
import { diskView } from '../../views.ts';

export const imagePrune = command({
  path: ['image', 'prune'],
  summary: 'Delete the images that no VM, no VM configuration and no pool uses',
  description:
    'Without --yes it only shows which ones they are. Images that are being made stay, and so do those that they are copied from.',
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
    const [all, ...users] = await Promise.all([
      images.list(ns),
      vms.list(ns),
      vmConfigs.list(ns),
      vmPools.list(ns),
    ]);
    const used = [
      ...users.flat().map(({ image = '' }) => image),
      ...all.flatMap(({ copyOf }) => copyOf ?? []),
    ];
    const unused = all.filter(({ name, state }) => state !== 'Updating' && !isUsed(name, ns, used));
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
      (name) => images.delete(ns, name, context.signal),
    );
  },
});

/** By name, or by the place in the store that a VM was pinned to when its configuration named it. */
function isUsed(name: string, namespace: string, used: readonly string[]): boolean {
  return used.some(
    (image) => image === name || image.split('@', 1)[0]?.endsWith(`/${namespace}/${name}`) === true,
  );
}
