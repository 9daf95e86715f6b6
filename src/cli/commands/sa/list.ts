import { command } from '../../command.ts';
import { serviceAccountView } from '../../views.ts';

export const saList = command({
  path: ['sa', 'list'],
  summary: 'List the service accounts of a namespace',
  examples: [{ line: 'svc3 sa list', summary: 'All of the namespace' }],
  async run({ out, namespace, service }) {
    const [{ serviceAccounts }, ns] = await Promise.all([service(), namespace()]);
    await out.list(serviceAccountView, await serviceAccounts.list(ns));
  },
});
