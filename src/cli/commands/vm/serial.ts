import { command } from '../../command.ts';
import { pipeSerial } from '../../serial.ts';

export const vmSerial = command({
  path: ['vm', 'serial'],
  summary: 'Use the serial console of a VM',
  description:
    'What is typed goes to the guest, Ctrl-C too; Ctrl-] ends the connection. It outlives restarts of the guest. What the guest wrote before is in svc3 vm logs. Without a terminal standard input is sent, and the answer printed until nothing comes for 5 seconds.',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: {},
  examples: [
    { line: 'svc3 vm serial build-1', summary: 'Log in without a network' },
    { line: "printf 'uptime\\n' | svc3 vm serial build-1", summary: 'Type a line, and see what comes' },
  ],
  async run(context, { arguments: { name } }) {
    const [{ vms }, ns] = await Promise.all([context.service(), context.namespace()]);
    await pipeSerial(context, name, await vms.serial(ns, name));
  },
});
