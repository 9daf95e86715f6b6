import { showAddress } from '../../browser.ts';
import { command } from '../../command.ts';
import { listen } from '../../tunnel.ts';

export const vmConsole = command({
  path: ['vm', 'console'],
  summary: 'Show the address of the screen of a VM, open it, or lead a VNC viewer to it',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: {
    open: { kind: 'flag', summary: 'Open it in the browser' },
    listen: {
      kind: 'text',
      short: 'l',
      placeholder: '[ADDRESS:]PORT',
      summary: 'Listen here for a VNC viewer instead',
    },
  },
  examples: [
    { line: 'svc3 vm console build-1', summary: 'Address for a browser' },
    { line: 'svc3 vm console build-1 --open', summary: 'Open the browser' },
    { line: 'svc3 vm console build-1 --listen 5901', summary: 'For a VNC viewer at 127.0.0.1:5901' },
  ],
  async run(context, { arguments: { name }, options }) {
    const [{ vms }, ns] = await Promise.all([context.service(), context.namespace()]);
    if (options.listen !== undefined) {
      await listen(context, options.listen, () => vms.screen(ns, name));
      return;
    }
    const url = await vms.consoleUrl(ns, name);
    await showAddress(context, url, options.open);
  },
});
