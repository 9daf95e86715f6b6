import { command } from '../../command.ts';
import { watchOption } from '../../listing.ts';
import type { VmItem } from '../../service/types.ts';
import { vmView } from '../../views.ts';

export const vmGet = command({
  path: ['vm', 'get'],
  summary: 'Show one VM',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: watchOption,
  examples: [
    { line: 'svc3 vm get build-1', summary: 'Where it runs and how it is reached' },
    { line: 'svc3 vm get build-1 -o json | jq .ssh', summary: 'Its SSH port, for a script' },
  ],
  async run({ out, namespace, service, signal }, { arguments: { name }, options }) {
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    if (options.watch) await out.watch(vmView, only(vms.watch(ns, signal), name));
    else await out.item(vmView, await vms.get(ns, name));
  },
});

async function* only(
  lists: AsyncIterable<readonly VmItem[]>,
  name: string,
): AsyncGenerator<readonly VmItem[]> {
  for await (const items of lists) yield items.filter((vm) => vm.name === name);
}
