import { command } from '../../command.ts';
import { kindOptions, kindSettingsOf } from '../../kindoptions.ts';
import { namingOptions, settingsOf, settingsOptions, withoutUndefined } from '../../settings.ts';
import { usageError } from '../../usage.ts';
import { vmPoolView } from '../../views.ts';

const { subdomain: _subdomain, ...templateOptions } = settingsOptions;
// They need a Persistent disk.
const { 'suspend-to': _suspendTo, 'on-eviction': _onEviction, ...templateKindOptions } = kindOptions;
const standbys = { suspended: 'Suspended', running: 'Running' } as const;

export const poolCreate = command({
  path: ['pool', 'create'],
  summary: 'Create a VM pool: guests that boot now and wait for VMs',
  description:
    'The settings are those of every VM of the pool; svc3 vm deploy --pool takes a guest that waits. What is given here overrides the configuration.',
  arguments: { name: { summary: 'Name of the pool' } },
  options: {
    config: {
      kind: 'text',
      placeholder: 'CONFIG',
      summary: 'VM configuration of the namespace to start from',
      complete: 'vmConfigs',
    },
    ...templateOptions,
    ...templateKindOptions,
    'min-idle': {
      kind: 'integer',
      unit: 'guests',
      placeholder: 'N',
      summary: 'Booted guests that wait for VMs',
      fallback: 1,
    },
    'max-size': {
      kind: 'integer',
      unit: 'guests',
      placeholder: 'N',
      summary: 'Waiting guests and VMs of the pool together; else there is no bound',
    },
    standby: {
      kind: 'choice',
      choices: ['suspended', 'running'],
      summary: 'Whether a waiting guest is paused or runs on; else it is paused',
    },
    'serve-config': {
      kind: 'flag',
      summary: 'Serve VMs as well that name CONFIG and ask for nothing else',
    },
  },
  examples: [
    { line: 'svc3 pool create ci -i debian-12 -c 2 -m 4 --min-idle 3', summary: 'Three guests wait' },
    {
      line: 'svc3 pool create jobs --config builder --serve-config --max-size 20',
      summary: 'For everybody who deploys from a configuration',
    },
  ],
  async run({ out, namespace, service }, { arguments: { name }, options }) {
    if (options.config === undefined && options.image === undefined)
      throw usageError('one of --config, --image is needed; see svc3 pool create --help');
    const [{ vmPools }, ns] = await Promise.all([service(), namespace()]);
    const said = withoutUndefined({
      ...settingsOf(options),
      ...(await kindSettingsOf(options)),
      vmConfig: options.config,
      nodeName: options.node,
      minIdle: options['min-idle'],
      maxSize: options['max-size'],
      standby: options.standby === undefined ? undefined : standbys[options.standby],
      serveConfig: options['serve-config'] ? true : undefined,
    });
    const created = await namingOptions(() => vmPools.create(ns, { ...said, name }));
    await out.item(vmPoolView, created);
  },
});
