/** Ways into a guest: `svc3 vm ssh`, `console`, `serial` and `tunnel`. */
import { Svc3Error } from '../../../errors.ts';
import { showAddress } from '../../browser.ts';
import { command, type Command } from '../../command.ts';
import { pipeSerial } from '../../serial.ts';
import { runSsh, sshWords } from '../../ssh.ts';
import { untilServed } from '../../sshbanner.ts';
import { listen, pipeTerminal } from '../../tunnel.ts';
import { usageError } from '../../usage.ts';

const vmSsh = command({
  path: ['vm', 'ssh'],
  summary: 'Log in to a VM through the API, whether it has a port of the node or not',
  description:
    'What follows -- goes to ssh: options, and a command to run. The tunnel is authenticated to this very VM, whose host key changes with its disk: it is not kept unless an option says where.',
  arguments: {
    name: { summary: 'Name of the VM, or USER@NAME', complete: 'vms' },
    rest: { summary: 'Options and command for ssh, after --', variadic: true, optional: true },
  },
  options: {
    login: { kind: 'text', short: 'l', placeholder: 'USER', summary: 'User in the VM' },
    identity: { kind: 'text', short: 'i', placeholder: 'FILE', summary: 'Private key' },
  },
  examples: [
    { line: 'svc3 vm ssh root@build-1', summary: 'A shell' },
    { line: 'svc3 vm ssh build-1 -l debian -- uname -a', summary: 'One command' },
  ],
  async run(context, { arguments: { name: target, rest }, options }) {
    const [service, ns] = await Promise.all([context.service(), context.namespace()]);
    const at = target.lastIndexOf('@');
    const name = target.slice(at + 1);
    const user = options.login ?? (at > 0 ? target.slice(0, at) : undefined);
    if (!/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name))
      throw usageError(`NAME: "${name}" is not the name of a VM`);
    const { status, deployDate } = await service.vms.get(ns, name);
    if (status !== 'Running')
      throw new Svc3Error('Conflict', `VM ${name} is ${status}, ssh needs it to be Running`);
    await untilServed(context, () => service.vms.tunnel(ns, name, 22), `VM ${name}`);
    const { environment, globalArguments } = context;
    const tunnel = [...environment.program, ...globalArguments, '-n', ns, 'vm', 'tunnel', name, '22'];
    const words = sshWords({
      name,
      namespace: ns,
      deployDate,
      user,
      identity: options.identity,
      tunnel,
      rest: rest ?? [],
    });
    // What ssh writes to the terminal does not come through here.
    context.out.flush();
    context.exitWith(await runSsh(words, context.signal));
  },
});

const vmConsole = command({
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

const vmSerial = command({
  path: ['vm', 'serial'],
  summary: 'Use the serial console of a VM',
  description:
    'What is typed goes to the guest, Ctrl-C too; Ctrl-] ends the connection. It outlives restarts of the guest. What the guest wrote before is in svc3 vm logs. Without a terminal standard input is sent, and the answer printed until nothing comes for 5 seconds.',
  arguments: { name: { summary: 'Name of the VM', complete: 'vms' } },
  options: {},
  onlyShows: true,
  examples: [
    { line: 'svc3 vm serial build-1', summary: 'Log in without a network' },
    { line: "printf 'uptime\\n' | svc3 vm serial build-1", summary: 'Type a line, and see what comes' },
  ],
  async run(context, { arguments: { name } }) {
    const [{ vms }, ns] = await Promise.all([context.service(), context.namespace()]);
    await pipeSerial(context, name, await vms.serial(ns, name));
  },
});

const vmTunnel = command({
  path: ['vm', 'tunnel'],
  summary: 'Reach a TCP port of a VM through the API',
  description:
    'Without --listen the stream is standard input and output, as ProxyCommand of ssh wants it. A stream has no half-close: after the end of what is sent the answer is passed on until nothing comes for 5 seconds, and a guest that is slow is sent the rest for ten minutes.',
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
  onlyShows: true,
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

export const commands: readonly Command[] = [vmSsh, vmConsole, vmSerial, vmTunnel];
