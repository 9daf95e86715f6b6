import { command } from '../../command.ts';
import { usageError } from '../../parse.ts';
import { descriptionOption, longWorkOptions, showWork } from '../../longwork.ts';

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
    },
    ...descriptionOption,
    ...longWorkOptions,
  },
  examples: [
    {
      line: 'svc3 image generate blank --size 120G',
      summary: 'For svc3 vm deploy -i blank --iso debian-installer',
    },
  ],
  async run(context, { arguments: { name, size: second }, options: { size: option, description, wait } }) {
    const size = option ?? second;
    if (size === undefined || (option !== undefined && second !== undefined))
      throw usageError('the size is needed once: as SIZE after NAME, or by --size');
    const [{ images }, ns] = await Promise.all([context.service(), context.namespace()]);
    const request = { name, size, ...(description === undefined ? {} : { description }) };
    await showWork(context, 'image', { begun: await images.generate(ns, request), disks: images, wait });
  },
});
