import { command, type Command } from '../../command.ts';
import { deleteAll } from '../../deletion.ts';

const vmDelete = command({
  path: ['vm', 'delete'],
  summary:
    'Delete VMs and what they wrote to ephemeral disks; persistent ones stay unless their whenDeleted is Delete',
  arguments: { name: { summary: 'Names of the VMs', variadic: true, complete: 'vms' } },
  options: {
    'delete-disk': {
      kind: 'flag',
      summary: 'Delete the persistent disk that each boots from, too, whatever its disk.whenDeleted says',
    },
    'no-wait': { kind: 'flag', summary: 'Return as soon as the deletion has begun' },
  },
  examples: [
    { line: 'svc3 vm delete build-1', summary: 'One VM' },
    {
      line: 'svc3 vm list -o json | jq -r ".[].name" | xargs svc3 vm delete',
      summary: 'All VMs of the namespace',
    },
  ],
  async run(context, { arguments: { name }, options: { 'no-wait': noWait, 'delete-disk': deleteDisk } }) {
    const [{ vms }, ns] = await Promise.all([context.service(), context.namespace()]);
    const progress = (text: string) => context.out.progress(text);
    context.ifInterrupted(
      'no longer waiting; deletions that have begun go on: svc3 vm list shows what is left',
    );
    const options = { wait: !noWait, deleteDisk, signal: context.signal, progress };
    await deleteAll(context, 'vm', name, (each) => vms.delete(ns, each, options));
  },
});

export const commands: readonly Command[] = [vmDelete];
