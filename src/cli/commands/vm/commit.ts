import { command } from '../../command.ts';
import { descriptionOption, longWorkOptions, showWork } from '../../longwork.ts';

export const vmCommit = command({
  path: ['vm', 'commit'],
  summary: 'Make the disk of a VM the new content of the image it was deployed from',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: { ...descriptionOption, ...longWorkOptions },
  examples: [
    { line: 'svc3 vm commit build-1', summary: 'Begin, and look later with svc3 image list' },
    { line: 'svc3 vm commit build-1 --wait', summary: 'Wait until it is stored' },
  ],
  async run(context, { arguments: { name }, options: { description, wait } }) {
    const [{ vms, images }, ns] = await Promise.all([context.service(), context.namespace()]);
    const request = description === undefined ? {} : { description };
    await showWork(context, 'image', { begun: await vms.commit(ns, name, request), disks: images, wait });
  },
});
