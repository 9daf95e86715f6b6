import { command } from '../../command.ts';
import { usageError } from '../../usage.ts';

export const vmResize = command({
  path: ['vm', 'resize'],
  summary: 'Grow the disk of a VM',
  description:
    'The disk only grows, in a running or a stopped VM. Where a guest agent allows it the file system of the guest grows too; the answer says what is left to do in the guest.',
  arguments: {
    name: { summary: 'Name of the VM', complete: 'vms' },
    gigabytes: { summary: 'New size in GiB' },
  },
  options: { 'no-wait': { kind: 'flag', summary: 'Return as soon as the size is accepted' } },
  examples: [{ line: 'svc3 vm resize build-1 80', summary: 'To 80 GiB' }],
  async run({ out, namespace, service, signal }, { arguments: { name, gigabytes }, options }) {
    if (!/^[1-9]\d{0,4}$/.test(gigabytes))
      throw usageError(`GIGABYTES: "${gigabytes}" is not a whole number of GiB`);
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    const progress = (text: string) => out.progress(text);
    const waiting = { wait: !options['no-wait'], signal, progress };
    const outcome = await vms.resize(ns, name, Number(gigabytes), waiting);
    const grows = `The disk of vm ${name} grows to ${gigabytes} GiB`;
    await out.done('vm', name, outcome === undefined ? grows : `VM ${name}: ${outcome}`);
  },
});
