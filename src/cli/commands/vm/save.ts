import { command } from '../../command.ts';
import { descriptionOption, longWorkOptions, showWork } from '../../longwork.ts';

export const vmSave = command({
  path: ['vm', 'save'],
  summary: 'Save the disk of a VM as a new image',
  arguments: {
    name: { summary: 'Name of the VM', complete: 'vms' },
    image: { summary: 'Name of the new image' },
  },
  options: { ...descriptionOption, ...longWorkOptions },
  examples: [
    { line: 'svc3 vm save build-1 debian-tools', summary: 'Begin, and look later with svc3 image list' },
    {
      line: 'svc3 vm save build-1 debian-tools --wait -d "Debian with our tools"',
      summary: 'Wait until it is stored',
    },
  ],
  async run(context, { arguments: { name, image }, options: { description, wait } }) {
    const [{ vms, images }, ns] = await Promise.all([context.service(), context.namespace()]);
    const request = { imageName: image, ...(description === undefined ? {} : { description }) };
    await showWork(context, 'image', { begun: await vms.save(ns, name, request), disks: images, wait });
  },
});
