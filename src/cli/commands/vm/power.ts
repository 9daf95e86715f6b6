/** The verbs of VMs that change their power state differ in nothing but their words. */
import { type PowerCommand, powerVerbs } from '../../../wire/powercommands.ts';
import { command, type Command, type Example } from '../../command.ts';
import { notInTime, tellingFate } from '../../fate.ts';
import { eachOf } from '../../several.ts';

function powerCommand(
  verb: PowerCommand,
  words: { readonly summary: string; readonly examples: readonly Example[] },
): Command {
  return command({
    path: ['vm', verb],
    ...words,
    description:
      'It waits two minutes at most. What is not done by then goes on, and that is a failure: whoever needs it done looks again before going on.',
    arguments: { name: { summary: 'Names of the VMs', variadic: true, complete: 'vms' } },
    options: { 'no-wait': { kind: 'flag', summary: 'Return as soon as the command is accepted' } },
    async run(context, { arguments: { name: names }, options }) {
      const { out, signal } = context;
      const [{ vms }, ns] = await Promise.all([context.service(), context.namespace()]);
      const progress = (text: string) => out.progress(text);
      const waiting = { wait: !options['no-wait'], signal, progress };
      const left = (rest: readonly string[]) =>
        `no longer waiting; what was asked for goes on: svc3 vm list shows it; no ${verb} was asked of ${rest.join(', ')}`;
      await eachOf(context, names, left, async (name) => {
        const shown = `svc3 vm get ${name} shows it`;
        context.ifInterrupted(`no longer waiting; ${verb} of VM ${name} goes on: ${shown}`);
        const fate = `${verb} of VM ${name}, if it was accepted, goes on: ${shown}`;
        const done = await tellingFate(vms.exec(ns, name, verb, waiting), fate);
        const accepted = `${verb} of VM ${name} was accepted`;
        if (!done && waiting.wait) throw notInTime(`${accepted} and is not done yet: ${shown}`);
        const message = done ? `VM ${name} was ${powerVerbs[verb].done}` : accepted;
        await out.done('vm', name, message);
      });
    },
  });
}

export const commands: readonly Command[] = [
  powerCommand('start', {
    summary: 'Start a stopped VM',
    examples: [
      { line: 'svc3 vm start build-1', summary: 'Start it and wait until it runs' },
      { line: 'svc3 vm start build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
    ],
  }),
  powerCommand('stop', {
    summary: 'Stop a VM: shut its guest down, and switch it off where that takes too long',
    examples: [
      { line: 'svc3 vm stop build-1', summary: 'Stop it and wait until it has stopped' },
      { line: 'svc3 vm stop build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
    ],
  }),
  powerCommand('restart', {
    summary: 'Restart a VM: shut its guest down and start it again with the settings that wait for it',
    examples: [
      { line: 'svc3 vm restart build-1', summary: 'After a change of its CPUs, say' },
      { line: 'svc3 vm restart build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
    ],
  }),
  powerCommand('suspend', {
    summary: 'Suspend a VM: freeze its guest where it is',
    examples: [
      { line: 'svc3 vm suspend build-1', summary: 'Freeze it' },
      { line: 'svc3 vm suspend build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
    ],
  }),
  powerCommand('resume', {
    summary: 'Resume a suspended VM',
    examples: [
      { line: 'svc3 vm resume build-1', summary: 'Go on where it was frozen' },
      { line: 'svc3 vm resume build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
    ],
  }),
  powerCommand('revert', {
    summary: 'Revert a VM: discard the changes to its disk and boot fresh from the image',
    examples: [
      { line: 'svc3 vm revert build-1', summary: 'Throw away what it wrote' },
      { line: 'svc3 vm revert build-1 build-2 --no-wait', summary: 'Two of them, without waiting' },
    ],
  }),
];
