import type { Context } from './context.ts';
import type { Disks } from './service/types.ts';

/** Images and ISOs have the same commands; what differs is the word. */
export type Kind = 'image' | 'iso';

export const nouns = { image: 'image', iso: 'ISO' } as const;
export const plurals = { image: 'images', iso: 'isos' } as const;
export const samples = { image: 'debian-12', iso: 'debian-installer' } as const;

export async function disksOf(
  { service, namespace }: Context,
  kind: Kind,
): Promise<{ disks: Disks; ns: string }> {
  const [opened, ns] = await Promise.all([service(), namespace()]);
  return { disks: opened[plurals[kind]], ns };
}

export function described(description: string | undefined): { description?: string } {
  return description === undefined ? {} : { description };
}
