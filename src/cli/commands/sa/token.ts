import { command } from '../../command.ts';

export const saToken = command({
  path: ['sa', 'token'],
  summary: 'Issue a token for a service account',
  description:
    'The cluster may allow less than was asked for: then it says so, and the expiry of the answer is the real one.',
  arguments: { name: { summary: 'Name of the service account', complete: 'serviceAccounts' } },
  options: {
    duration: {
      kind: 'text',
      placeholder: 'DURATION',
      summary: 'How long it is valid, e.g. 720h or 30d; one year where nothing is said',
    },
  },
  examples: [
    { line: 'TOKEN=$(svc3 sa token ci)', summary: 'One year, for a script' },
    { line: 'svc3 sa token ci --duration 24h -o json', summary: 'One day, with its expiry' },
  ],
  async run({ out, namespace, service }, { arguments: { name }, options: { duration } }) {
    const [{ serviceAccounts }, ns] = await Promise.all([service(), namespace()]);
    const issued = await serviceAccounts.token(ns, name, duration === undefined ? {} : { duration });
    await out.value(issued, issued.token);
  },
});
