/** What a node has and a pod takes, as one vector of numbers: an index per resource, exact integers below 2^53. */
export const CPU = 0; // millicores
export const MEMORY = 1; // bytes
export const EPHEMERAL_STORAGE = 2; // bytes
export const PODS = 3;
export const GPU = 4; // bundles of svc3.dev/gpu-passthrough
export const KVM = 5; // slots of svc3.dev/kvm
export const SSH = 6; // host ports of the range for SSH
export const SCREEN_SHARE = 7;
export const VNC = 8;
export const RESOURCES = 9;

export type ResourceVector = number[];

export function emptyVector(): ResourceVector {
  // A literal of RESOURCES zeros: several are made for each event of a pod.
  return [0, 0, 0, 0, 0, 0, 0, 0, 0];
}

/** The entries of a request that are not zero, so that a comparison touches nothing else. */
export interface Need {
  readonly dimensions: readonly number[];
  readonly amounts: readonly number[];
}

/** The dimensions of the request that are above 0, with their amounts, for `missing` and the tree of a class. */
export function needOf(vector: ResourceVector): Need {
  const dimensions: number[] = [];
  const amounts: number[] = [];
  vector.forEach((amount, dimension) => {
    if (amount > 0) {
      dimensions.push(dimension);
      amounts.push(amount);
    }
  });
  return { dimensions, amounts };
}

/** Bits of the dimensions in which `free` is less than the need; 0 when everything fits. */
export function missing(free: ResourceVector, need: Need): number {
  let mask = 0;
  for (let i = 0; i < need.dimensions.length; i++) {
    const dimension = need.dimensions[i] as number;
    if ((free[dimension] as number) < (need.amounts[i] as number)) mask |= 1 << dimension;
  }
  return mask;
}
