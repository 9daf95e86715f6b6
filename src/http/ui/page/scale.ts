import type { VmPoolItem } from '../../../wire/vmschemas.ts';
import type { Values } from './schema.ts';

type Size = Pick<VmPoolItem, 'minIdle' | 'maxSize'>;

/** What a form for the size of a pool begins with. */
export function scaleValues({ minIdle, maxSize }: Size): Values {
  const values = new Map([['minIdle', String(minIdle)]]);
  return maxSize === undefined ? values : values.set('maxSize', String(maxSize));
}

/** The body without a `maxSize` that is as it was shown: who changes only `minIdle` takes nobody's change of the other back. */
export function scaleBody(
  { maxSize, ...rest }: Readonly<Record<string, unknown>>,
  shown: Size,
): Readonly<Record<string, unknown>> {
  return maxSize === undefined || maxSize === shown.maxSize ? rest : { ...rest, maxSize };
}
