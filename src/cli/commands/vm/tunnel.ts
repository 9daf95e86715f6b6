import { command } from '../../command.ts';
import { usageError } from '../../usage.ts';
import { listen, pipeTerminal } from '../../tunnel.ts';

export const vmTunnel = command({
  path: ['vm', 'tunnel'],
  summary: 'Reach a TCP port of a VM through the API',
  description: 'Without --listen the stream is standard input and output, as ProxyCommand of ssh wants it.',
  arguments: {
    name: { summary: 'Name of the VM', complete: 'vms' },
    port: { summary: 'Port inside the VM' },
  },
  options: {
    listen: {
      kind: 'text',
      short: 'l',
      placeholder: '[ADDRESS:]PORT',
      summary: 'Listen here, on 127.0.0.1 where no address is given; port 0 takes a free one',
    },
  },
  examples: [
    {
      line: 'svc3 vm tunnel web 80 --listen 8080',
      summary: 'http://127.0.0.1:8080 is the web server of the VM',
    },
    { line: 'ssh -o ProxyCommand="svc3 vm tunnel web 22" root@web', summary: 'ssh by hand' },
  ],
  async run(context, { arguments: { name, port }, options }) {
    const number = Number(port);
    if (!/^\d{1,5}$/.test(port) || number < 1 || number > 65_535)
      throw usageError(`PORT: "${port}" is not a port`);
    const [{ vms }, ns] = await Promise.all([context.service(), context.namespace()]);
    const open = () => vms.tunnel(ns, name, number);
    if (options.listen === undefined) await pipeTerminal(context, await open());
    else await listen(context, options.listen, open);
  },
});
