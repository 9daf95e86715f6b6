import { command } from '../../command.ts';
import { architectureOption, descriptionOption, longWorkOptions, showWork } from '../../longwork.ts';
import { withoutUndefined } from '../../settings.ts';

export const imageGenerate = command({
  path: ['image', 'generate'],
  summary: 'Make an empty image, to install a system on',
  arguments: {
    name: { summary: 'Name of the image' },
    size: { summary: 'Virtual size, e.g. 120G; the same as --size', optional: true },
  },
  options: {
    size: {
      kind: 'text',
      short: 's',
      placeholder: 'SIZE',
      summary: 'Virtual size, e.g. 120G',
      required: true,
    },
    ...descriptionOption,
    ...architectureOption,
    ...longWorkOptions,
  },
  examples: [
    {
      line: 'svc3 image generate blank --size 120G',
      summary: 'For svc3 vm deploy -i blank --iso debian-installer',
    },
  ],
  async run(context, { arguments: { name }, options: { wait, ...said } }) {
    const [{ images }, ns] = await Promise.all([context.service(), context.namespace()]);
    const request = { ...withoutUndefined(said), name, size: said.size };
    await showWork(context, 'image', { begun: await images.generate(ns, request), disks: images, wait });
  },
});
