import { command } from '../../command.ts';
import { usageError } from '../../parse.ts';

export const vmResize = command({
  path: ['vm', 'resize'],
  summary: 'Grow the disk of a VM',
  description:
    'The disk only grows. The guest sees the new size; its partitions and file systems are its own business.',
  arguments: {
    name: { summary: 'Name of the VM', complete: 'vms' },
    gigabytes: { summary: 'New size in GiB' },
  },
  examples: [{ line: 'svc3 vm resize build-1 80', summary: 'To 80 GiB' }],
  async run({ out, namespace, service }, { arguments: { name, gigabytes } }) {
    if (!/^[1-9]\d{0,4}$/.test(gigabytes))
      throw usageError(`GIGABYTES: "${gigabytes}" is not a whole number of GiB`);
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    await vms.resize(ns, name, Number(gigabytes));
    await out.done('vm', name, `The disk of vm ${name} grows to ${gigabytes} GiB`);
  },
});
