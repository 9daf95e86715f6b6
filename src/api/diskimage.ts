import type { PersistentVolumeClaim } from './core.ts';
import { annotations, labels } from './meta.ts';

/** Selects the claims that are disks of VMs, or were. */
export const diskClaimSelector = `${labels.disk}=true`;

/** As much of a claim as says which image its disk was made on. */
export type DiskClaimMeta = Pick<PersistentVolumeClaim, 'metadata'>;

/**
 * References of the images that the disk of a claim may have been made on, with digests where these were known: as a rule one, none where nobody has noted it,
 * and several where a VM with another image has taken the claim, which may have reverted the disk.
 */
export function diskImagesOf({ metadata }: DiskClaimMeta): readonly string[] {
  const noted = metadata.annotations?.[annotations.diskImage] ?? '';
  return noted.split(',').filter((reference) => reference !== '');
}
