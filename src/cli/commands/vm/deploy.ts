import { defaults } from '../../../api/meta.ts';
import { formatTraceparent, parseTraceparent } from '../../../api/traceparent.ts';
import type { DeployWait } from '../../../usecases/deploy.ts';
import type { DeployRequest, SettingsRequest } from '../../../wire/vmschemas.ts';
import { command, type Command } from '../../command.ts';
import type { Environment } from '../../environment.ts';
import { tellingFate } from '../../fate.ts';
import { kindOptions, kindSettingsOf } from '../../kindoptions.ts';
import {
  namingOptions,
  ownOptions,
  ownSettingsOf,
  settingsOf,
  settingsOptions,
  withoutUndefined,
} from '../../settings.ts';
import { usageError } from '../../usage.ts';
import { deployView } from '../../views.ts';

const vmDeploy = command({
  path: ['vm', 'deploy'],
  summary: 'Deploy a VM from a configuration, an image or a pool, and wait until it runs',
  description:
    'What is given here overrides the configuration. Without NAME the VM is called vm- and five characters. A VM that does not run within the time-out is deleted, with --no-wait where --timeout, CONFIG or POOL says one; so is a VM that is waited for and whose image a registry refuses.',
  arguments: { name: { summary: 'Name of the VM', optional: true } },
  options: {
    config: {
      kind: 'text',
      placeholder: 'CONFIG',
      summary: 'VM configuration to start from',
      complete: 'vmConfigs',
    },
    'config-namespace': {
      kind: 'text',
      placeholder: 'NAMESPACE',
      summary:
        'Namespace of CONFIG; else that of the VM, or the default one of the installation where CONFIG is there only',
    },
    pool: {
      kind: 'text',
      placeholder: 'POOL',
      summary:
        'VM pool whose guest the VM gets; all settings but --metadata, --ssh-key and --timeout are those of the pool',
      complete: 'vmPools',
    },
    ...settingsOptions,
    ...kindOptions,
    ports: ownOptions.ports,
    'data-disk': {
      kind: 'list',
      placeholder: 'NAME=SIZE,...',
      summary: 'New data disks, e.g. logs=20Gi; the guest has each as /dev/disk/by-id/virtio-NAME',
    },
    'data-claim': {
      kind: 'list',
      placeholder: 'NAME=CLAIM,...',
      summary:
        'Data disks of PersistentVolumeClaims with a file disk.img; NAME=CLAIM:qcow2 where it is none of raw bytes',
    },
    claim: {
      kind: 'text',
      placeholder: 'NAME',
      summary: 'PersistentVolumeClaim with the disk that a deleted VM left; says --storage persistent',
    },
    hostname: { kind: 'text', placeholder: 'NAME', summary: 'Host name of the guest; else that of the VM' },
    metadata: ownOptions.metadata,
    'generate-name': { kind: 'flag', summary: 'Take NAME as a prefix and add a suffix' },
    timeout: {
      kind: 'integer',
      unit: 'minutes',
      placeholder: 'MIN',
      summary:
        'Minutes from the first status that svc3 writes of the VM until it must run, else it is deleted; without it 10, whatever CONFIG or POOL says, and with --no-wait what these say, else none',
    },
    'no-wait': { kind: 'flag', summary: 'Return as soon as the VM is accepted' },
    'wait-for': {
      kind: 'choice',
      choices: ['running', 'reachable'],
      fallback: 'running',
      summary: 'What to wait for: that it runs, or that its guest answers',
    },
  },
  examples: [
    {
      line: 'svc3 vm deploy db --config debian --storage persistent --disk-size 40Gi --readiness tcp:5432',
      summary: 'With a disk that stays, ready when its database answers',
    },
    { line: 'svc3 vm deploy build-1 --config builder', summary: 'From a configuration' },
    {
      line: 'svc3 vm deploy -i registry.example.com/team/debian:12 -c 4 -m 8',
      summary: 'From an image, with 4 CPUs and 8 GiB',
    },
    {
      line: 'svc3 vm deploy --config builder --gpu=no',
      summary: 'Without the GPU that the configuration asks for',
    },
    { line: 'svc3 vm deploy job-1 --pool ci', summary: 'A guest that has booted already' },
    {
      line: 'svc3 vm deploy web --config debian -p 20080:80 -o json | jq .[0].ip',
      summary: 'With a port of the node, for a script',
    },
  ],
  async run(
    { environment, out, namespace, service, signal, ifInterrupted },
    { arguments: { name }, options },
  ) {
    if (options.config === undefined && options.image === undefined && options.pool === undefined)
      throw usageError('one of --config, --image, --pool is needed; see svc3 vm deploy --help');
    if (options['generate-name'] && name === undefined)
      throw usageError('--generate-name needs NAME, which it takes as a prefix');
    const [{ vms }, ns] = await Promise.all([service(), namespace()]);
    const kindSettings = await kindSettingsOf(options);
    const request = withoutUndefined({
      ...settingsOf(options),
      ...kindSettings,
      ...ownSettingsOf(options),
      name,
      shouldGenerateName: options['generate-name'] ? true : undefined,
      vmConfig: options.config,
      pool: options.pool,
      vmConfigNamespace: options['config-namespace'],
      hostname: options.hostname,
      disk: options.claim === undefined ? kindSettings.disk : claimed(options.claim, kindSettings.disk),
      disks: dataDisksOf(options['data-disk'], options['data-claim']),
      timeout: options.timeout,
    });
    const progress = (text: string) => out.progress(text);
    const wait = waitOf(options['no-wait'], options['wait-for']);
    const minutes = minutesOf(options.timeout, options['no-wait']);
    let fate = '';
    const noteFate = (text: string) => {
      fate = text;
      ifInterrupted(`no longer waiting; ${fate}`);
    };
    noteFate(perhapsLeft(options['generate-name'] ? undefined : name, minutes));
    const noteCreated = (created: string) => noteFate(left(created, minutes));
    const traceparent = traceparentOf(environment);
    const vm = await namingOptions(() =>
      tellingFate(vms.deploy(ns, request, { wait, signal, progress, noteCreated, traceparent }), () => fate),
    );
    if (vm.portWarnings !== undefined) out.warning(vm.portWarnings);
    await out.list(deployView, [vm]);
  },
});

/** CI systems set it for what they run; what is not one goes nowhere. */
function traceparentOf({ variables }: Environment): string | undefined {
  const context = parseTraceparent(variables['TRACEPARENT']);
  return context === undefined ? undefined : formatTraceparent(context);
}

/** How long the VM has to start; undefined where only its configuration or pool says it. */
function minutesOf(timeout: number | undefined, noWait: boolean): number | undefined {
  return timeout ?? (noWait ? undefined : defaults.startDeadlineSeconds / 60);
}

/** A deploy goes on without who asked for it. */
function left(name: string, minutes: number | undefined): string {
  return `VM ${name} ${goingOn(minutes)}: ${handles(name)}`;
}

/** @param name - undefined where it is generated */
function perhapsLeft(name: string | undefined, minutes: number | undefined): string {
  return name === undefined
    ? `a VM that was created ${goingOn(minutes)}: svc3 vm list shows it`
    : `VM ${name}, if it was created, ${goingOn(minutes)}: ${handles(name)}`;
}

function goingOn(minutes: number | undefined): string {
  const end = minutes === undefined ? '' : `, and is removed if it does not run within ${minutes} minutes`;
  return `goes on starting${end}`;
}

function handles(name: string): string {
  return `svc3 vm get ${name} shows it, svc3 vm delete ${name} removes it`;
}

function waitOf(noWait: boolean, state: 'running' | 'reachable'): DeployWait {
  if (state === 'running') return !noWait;
  if (noWait) throw usageError('--no-wait and --wait-for reachable exclude each other');
  return 'reachable';
}

function claimed(claimName: string, disk: SettingsRequest['disk']): DeployRequest['disk'] {
  return { storage: 'Persistent', ...disk, claimName };
}

function dataDisksOf(sizes: readonly string[], claims: readonly string[]): DeployRequest['disks'] {
  const disks = [
    ...sizes.map((text) => {
      const [name, size] = namedValue('--data-disk', text, 'NAME=SIZE');
      return { name, size };
    }),
    ...claims.map((text) => {
      const [name, claim] = namedValue('--data-claim', text, 'NAME=CLAIM[:raw|:qcow2]');
      const [claimName = '', word, ...more] = claim.split(':');
      if (word === undefined) return { name, claimName };
      const format = formats.get(word);
      if (format === undefined || more.length > 0)
        throw usageError(`--data-claim: "${text}" is not NAME=CLAIM[:raw|:qcow2]`);
      return { name, claimName, format };
    }),
  ];
  return disks.length === 0 ? undefined : disks;
}

const formats = new Map<string, 'Raw' | 'QCOW2'>([
  ['raw', 'Raw'],
  ['qcow2', 'QCOW2'],
]);

function namedValue(flag: string, text: string, shape: string): [name: string, value: string] {
  const equals = text.indexOf('=');
  const [name, value] = [text.slice(0, Math.max(equals, 0)), text.slice(equals + 1)];
  if (name === '' || value === '') throw usageError(`${flag}: "${text}" is not ${shape}`);
  return [name, value];
}

export const commands: readonly Command[] = [vmDeploy];
