import { command } from '../../command.ts';
import { vmPoolView } from '../../views.ts';

export const poolGet = command({
  path: ['pool', 'get'],
  summary: 'Show one VM pool',
  arguments: { name: { summary: 'Name of the pool', complete: 'vmPools' } },
  examples: [
    { line: 'svc3 pool get ci', summary: 'As a table' },
    { line: 'svc3 pool get ci -o json | jq .idle', summary: 'Guests that wait' },
  ],
  async run({ out, namespace, service }, { arguments: { name } }) {
    const [{ vmPools }, ns] = await Promise.all([service(), namespace()]);
    await out.item(vmPoolView, await vmPools.get(ns, name));
  },
});
