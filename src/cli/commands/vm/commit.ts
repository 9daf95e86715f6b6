import { command } from '../../command.ts';
import { descriptionOption, savingOptions, showSaving } from '../../longwork.ts';

export const vmCommit = command({
  path: ['vm', 'commit'],
  summary: 'Make the disk of a VM the new content of the image it was deployed from',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: { ...descriptionOption, ...savingOptions },
  examples: [
    { line: 'svc3 vm commit build-1', summary: 'Wait until it is stored' },
    { line: 'svc3 vm commit build-1 --no-wait', summary: 'Begin, and look later with svc3 image list' },
  ],
  async run(context, { arguments: { name }, options: { description, 'no-wait': noWait } }) {
    const [{ vms, images }, ns] = await Promise.all([context.service(), context.namespace()]);
    const request = description === undefined ? {} : { description };
    await showSaving(context, name, { begun: await vms.commit(ns, name, request), images, wait: !noWait });
  },
});
