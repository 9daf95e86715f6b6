import { command } from '../../command.ts';

export const vmEject = command({
  path: ['vm', 'eject'],
  summary: 'Take the install medium out of the CD drive of a VM',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  examples: [{ line: 'svc3 vm eject build-1', summary: 'After the installation' }],
  async run({ out, namespace, service }, { arguments: { name } }) {
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    await out.done('vm', name, await vms.eject(ns, name));
  },
});
