import { command, type Command } from './command.ts';
import { deleteAll } from './deletion.ts';
import { described, disksOf, nouns, plurals, samples, type Kind } from './diskkind.ts';
import { listOptions, showNamespacedList } from './listing.ts';
import { descriptionOption, longWorkOptions, showWork } from './longwork.ts';
import { usageError } from './usage.ts';
import { diskView, remoteView } from './views.ts';

export function listCommand(kind: Kind): Command {
  return command({
    path: [kind, 'list'],
    summary: `List the ${nouns[kind]}s of a namespace`,
    options: listOptions,
    onlyShows: true,
    examples: [
      { line: `svc3 ${kind} list`, summary: 'With state and progress' },
      { line: `svc3 ${kind} list --watch`, summary: 'And follow what is being made' },
    ],
    run: (context, { options }) =>
      showNamespacedList(context, diskView(kind), (service) => service[plurals[kind]], options),
  });
}

export function getCommand(kind: Kind): Command {
  return command({
    path: [kind, 'get'],
    summary: `Show one ${nouns[kind]}`,
    arguments: { name: { summary: `Name of the ${nouns[kind]}`, complete: plurals[kind] } },
    onlyShows: true,
    examples: [
      { line: `svc3 ${kind} get ${samples[kind]}`, summary: 'With state, progress and what keeps it' },
      { line: `svc3 ${kind} get ${samples[kind]} -o json | jq -r .state`, summary: 'For a script' },
    ],
    async run(context, { arguments: { name } }) {
      const { disks, ns } = await disksOf(context, kind);
      await context.out.item(diskView(kind), await disks.get(ns, name));
    },
  });
}

export function copyCommand(kind: Kind): Command {
  return command({
    path: [kind, 'copy'],
    summary: `Copy an ${nouns[kind]} of the store`,
    arguments: {
      name: { summary: `Name of the ${nouns[kind]}`, complete: plurals[kind] },
      copy: { summary: 'Name of the copy' },
    },
    options: { ...descriptionOption, ...longWorkOptions },
    examples: [
      { line: `svc3 ${kind} copy ${samples[kind]} mine --wait`, summary: 'And wait until it is there' },
    ],
    async run(context, { arguments: { name, copy }, options: { description, wait } }) {
      const { disks, ns } = await disksOf(context, kind);
      const begun = await disks.copy(ns, name, { name: copy, ...described(description) });
      await showWork(context, kind, { begun, disks, wait });
    },
  });
}

export function describeCommand(kind: Kind): Command {
  return command({
    path: [kind, 'set-description'],
    summary: `Set the description of an ${nouns[kind]}`,
    arguments: {
      name: { summary: `Name of the ${nouns[kind]}`, complete: plurals[kind] },
      description: { summary: 'Free text for people' },
    },
    examples: [
      {
        line: `svc3 ${kind} set-description ${samples[kind]} "With our tools"`,
        summary: 'What stands in the list',
      },
    ],
    async run(context, { arguments: { name, description } }) {
      const { disks, ns } = await disksOf(context, kind);
      await disks.describe(ns, name, description);
      await context.out.done(kind, name, `Set the description of ${kind} ${name}`);
    },
  });
}

export function deleteCommand(kind: Kind): Command {
  return command({
    path: [kind, 'delete'],
    summary: `Delete ${nouns[kind]}s that no VM and no pool uses`,
    description: `It waits up to 20 seconds until the store has deleted them and their names are free again. What an ${nouns[kind]} is copied from stays until that is done.`,
    arguments: { name: { summary: `Names of the ${nouns[kind]}s`, variadic: true, complete: plurals[kind] } },
    examples: [
      { line: `svc3 ${kind} delete ${samples[kind]}`, summary: 'Refused while a VM or a pool uses it' },
    ],
    async run(context, { arguments: { name } }) {
      const { disks, ns } = await disksOf(context, kind);
      context.ifInterrupted(
        `no longer waiting; deletions that have begun go on: svc3 ${kind} list shows what is left`,
      );
      await deleteAll(context, kind, name, (each) => disks.delete(ns, each, context.signal));
    },
  });
}

export function remoteListCommand(kind: Kind): Command {
  const path = `remote-${kind}` as const;
  return command({
    path: [path, 'list'],
    summary: `List what the remote registries of the installation hold`,
    description: 'It needs the HTTP API.',
    onlyShows: true,
    examples: [{ line: `svc3 ${path} list`, summary: 'What can be pulled' }],
    async run(context) {
      const { disks, ns } = await disksOf(context, kind);
      await context.out.list(remoteView(path), await disks.remote(ns));
    },
  });
}

export function remotePullCommand(kind: Kind): Command {
  const path = `remote-${kind}` as const;
  return command({
    path: [path, 'pull'],
    summary: `Pull a remote ${nouns[kind]} into the store`,
    arguments: {
      reference: { summary: 'OCI reference', complete: kind === 'image' ? 'remoteImages' : 'remoteIsos' },
      name: { summary: 'Name in the store; the same as --name', optional: true },
    },
    options: {
      name: {
        kind: 'text',
        placeholder: 'NAME',
        summary: "Name in the store; the reference's last part where nothing is said",
      },
      ...descriptionOption,
      ...longWorkOptions,
    },
    examples: [
      {
        line: `svc3 ${path} pull registry.example.com/team/${samples[kind]} --wait`,
        summary: 'And wait until it is there',
      },
    ],
    async run(context, { arguments: { reference }, options: { name, description, wait } }) {
      if (!/^[^\s/]+\/\S+$/.test(reference))
        throw usageError(
          `REFERENCE: "${reference}" is not an OCI reference such as registry.example.com/team/debian:12`,
        );
      const { disks, ns } = await disksOf(context, kind);
      const request = { ...(name === undefined ? {} : { name }), ...described(description) };
      await showWork(context, kind, { begun: await disks.pull(ns, reference, request), disks, wait });
    },
  });
}
