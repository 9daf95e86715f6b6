import { command } from '../../command.ts';
import { usageError } from '../../usage.ts';

export const poolScale = command({
  path: ['pool', 'scale'],
  summary: 'Change how many guests of a VM pool wait',
  arguments: {
    name: { summary: 'Name of the pool', complete: 'vmPools' },
    count: { summary: 'Booted guests that wait for VMs' },
  },
  options: {
    'max-size': {
      kind: 'integer',
      unit: 'guests',
      placeholder: 'N',
      summary: 'Waiting guests and VMs of the pool together; else it stays as it is',
    },
  },
  examples: [
    { line: 'svc3 pool scale ci 5', summary: 'Five guests wait' },
    { line: 'svc3 pool scale ci 0', summary: 'None, over the weekend' },
  ],
  async run({ out, namespace, service }, { arguments: { name, count }, options }) {
    if (!/^(0|[1-9]\d{0,2})$/.test(count))
      throw usageError(`COUNT: "${count}" is not a number from 0 to 500`);
    const [{ vmPools }, ns] = await Promise.all([service(), namespace()]);
    const maxSize = options['max-size'];
    const bound = maxSize === undefined ? {} : { maxSize };
    await vmPools.scale(ns, name, { minIdle: Number(count), ...bound });
    await out.done('vmpool', name, `${count} guests of pool ${name} are to wait`);
  },
});
