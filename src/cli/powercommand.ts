import { type PowerCommand, powerVerbs } from '../wire/powercommands.ts';
import { command, type Command, type Example } from './command.ts';

/** The commands that change the power state of VMs differ in nothing but their words. */
export function powerCommand(
  verb: PowerCommand,
  words: { readonly summary: string; readonly examples: readonly Example[] },
): Command {
  return command({
    path: ['vm', verb],
    ...words,
    arguments: { name: { summary: 'Names of the VMs', variadic: true, complete: 'vms' } },
    options: { 'no-wait': { kind: 'flag', summary: 'Return as soon as the command is accepted' } },
    async run({ out, namespace, service, signal, ifInterrupted }, { arguments: { name: names }, options }) {
      const [{ vms }, ns] = await Promise.all([service(), namespace()]);
      const progress = (text: string) => out.progress(text);
      for (const name of names) {
        ifInterrupted(`no longer waiting; ${verb} of VM ${name} goes on: svc3 vm get ${name} shows it`);
        const done = await vms.exec(ns, name, verb, { wait: !options['no-wait'], signal, progress });
        const message = done
          ? `VM ${name} was ${powerVerbs[verb].done}`
          : `${verb} of VM ${name} was accepted`;
        await out.done('vm', name, message);
      }
    },
  });
}
