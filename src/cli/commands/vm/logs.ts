import { command } from '../../command.ts';

export const vmLogs = command({
  path: ['vm', 'logs'],
  summary: 'Show what a guest writes on its serial console, and what its runner and QEMU say',
  description:
    'It is the log of the pod that runs the VM now, read at kube-apiserver with the right to pods/log.',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: {
    follow: { kind: 'flag', short: 'f', summary: 'Go on and print what comes, until Ctrl-C' },
    previous: {
      kind: 'flag',
      summary:
        'Of the container before, after the runner died; what a QEMU that died said is in the log without it',
    },
    tail: { kind: 'integer', placeholder: 'LINES', unit: 'lines', summary: 'Only so many lines of the end' },
  },
  examples: [
    { line: 'svc3 vm logs build-1', summary: 'All of it' },
    { line: 'svc3 vm logs build-1 -f --tail 20', summary: 'The last 20 lines and what comes' },
  ],
  async run({ environment, namespace, service, signal }, { arguments: { name }, options }) {
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    const { follow, previous, tail } = options;
    const request = { follow, previous, signal, ...(tail === undefined ? {} : { tail }) };
    for await (const bytes of vms.logs(ns, name, request)) environment.stdout.write(bytes);
  },
});
