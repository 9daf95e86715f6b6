/** A VM's disk as an image: `svc3 vm save` and `commit`. */
import { command, type Command } from '../../command.ts';
import { descriptionOption, savingOptions, showSaving } from '../../longwork.ts';

const vmSave = command({
  path: ['vm', 'save'],
  summary: 'Save the disk of a VM as a new image',
  arguments: {
    name: { summary: 'Name of the VM', complete: 'vms' },
    image: { summary: 'Name of the new image' },
  },
  options: {
    ...descriptionOption,
    memory: {
      kind: 'flag',
      summary: 'With the memory of the guest, which has to run: VMs from the image go on where it was',
    },
    ...savingOptions,
  },
  examples: [
    {
      line: 'svc3 vm save build-1 debian-tools -d "Debian with our tools"',
      summary: 'Wait until it is stored',
    },
    {
      line: 'svc3 vm save build-1 debian-warm --memory',
      summary: 'VMs from it do not boot: they go on where build-1 is now',
    },
    {
      line: 'svc3 vm save build-1 debian-tools --no-wait',
      summary: 'Begin, and look later with svc3 image list',
    },
  ],
  async run(context, { arguments: { name, image }, options: { description, memory, 'no-wait': noWait } }) {
    const [{ vms, images }, ns] = await Promise.all([context.service(), context.namespace()]);
    const request = {
      imageName: image,
      ...(description === undefined ? {} : { description }),
      ...(memory ? { memory } : {}),
    };
    await showSaving(context, name, { begun: await vms.save(ns, name, request), images, wait: !noWait });
  },
});

const vmCommit = command({
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

export const commands: readonly Command[] = [vmSave, vmCommit];
