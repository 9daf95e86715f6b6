import { command } from '../../command.ts';
import { kindOptions, kindSettingsOf } from '../../kindoptions.ts';
import { namingOptions, settingsOf, settingsOptions, withoutUndefined } from '../../settings.ts';
import { vmConfigView } from '../../views.ts';

export const vmcCreate = command({
  path: ['vmc', 'create'],
  summary: 'Create a VM configuration',
  arguments: { name: { summary: 'Name of the configuration' } },
  options: { ...settingsOptions, ...kindOptions, image: { ...settingsOptions.image, required: true } },
  examples: [
    { line: 'svc3 vmc create builder -i debian-12 -c 4 -m 8', summary: 'Four CPUs and 8 GiB' },
    {
      line: 'svc3 vmc create render -i registry.example.com/team/render:3 --gpu',
      summary: 'With GPU passthrough',
    },
    {
      line: 'svc3 vmc create plain -i debian-12 --disable-vnc --tag ssd',
      summary: 'No console, on nodes tagged ssd',
    },
  ],
  async run({ out, namespace, service }, { arguments: { name }, options }) {
    const [{ vmConfigs }, ns] = await Promise.all([service(), namespace()]);
    const request = {
      ...withoutUndefined({ ...settingsOf(options), nodeName: options.node }),
      ...(await kindSettingsOf(options)),
      name,
      image: options.image,
    };
    const created = await namingOptions(() => vmConfigs.create(ns, request));
    await out.item(vmConfigView, created);
  },
});
