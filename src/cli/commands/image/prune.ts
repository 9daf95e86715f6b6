import { command } from '../../command.ts';
import { deleteAll } from '../../deletion.ts';
import { diskView } from '../../views.ts';

export const imagePrune = command({
  path: ['image', 'prune'],
  summary: 'Delete the images that no VM and no VM configuration uses',
  description: 'Without --yes it only shows which ones they are. Images that are being made stay.',
  options: { yes: { kind: 'flag', short: 'y', summary: 'Delete them' } },
  examples: [
    { line: 'svc3 image prune', summary: 'What would be deleted' },
    { line: 'svc3 image prune --yes', summary: 'Delete it' },
  ],
  async run({ out, service, namespace }, { options }) {
    const [{ images, vms, vmConfigs }, ns] = await Promise.all([service(), namespace()]);
    const [all, running, configs] = await Promise.all([images.list(ns), vms.list(ns), vmConfigs.list(ns)]);
    const used = new Set([...running, ...configs].map(({ image }) => image));
    const unused = all.filter(({ name, state }) => state !== 'Updating' && !used.has(name));
    if (!options.yes || unused.length === 0) {
      await out.list(diskView('image'), unused);
      return;
    }
    await deleteAll(
      out,
      'image',
      unused.map(({ name }) => name),
      (name) => images.delete(ns, name),
    );
  },
});
