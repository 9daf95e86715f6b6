/**
 * Addresses inside the sandbox. Every cluster has a network namespace of its own, so all of them use the same ones; the
 * host has a link to one of them (hostlink.ts).
 */
export const maxNodes = 9;
/** The control plane and the nodes. */
export const nodeRange = '10.231.0.0/24';
export const controlPlaneAddress = '10.231.0.2';
export const serviceRange = '10.96.0.0/16';
export const podRange = '10.244.0.0/16';
/** ClusterIP of the Service of the cluster's DNS, in a cluster that has it. */
export const dnsAddress = '10.96.0.10';
export const clusterDomain = 'cluster.local';
export const registryPort = 5000;
/** The image store as nodes and pods name it. */
export const registryHost = `${controlPlaneAddress}:${registryPort}`;

export interface NodeAddresses {
  /** 1 … 9. */
  readonly index: number;
  readonly name: string;
  readonly ip: string;
  readonly podRange: string;
}

export function nodeAddresses(index: number): NodeAddresses {
  return { index, name: `node${index}`, ip: `10.231.0.${10 + index}`, podRange: `10.244.${index}.0/24` };
}

export function allNodes(count: number): NodeAddresses[] {
  return Array.from({ length: count }, (_, position) => nodeAddresses(position + 1));
}

/** What is lost where a cluster of `before` nodes starts with `after`; undefined where nothing is. */
export function lossOf(before: number, after: number): string | undefined {
  if (after >= before) return undefined;
  const names = allNodes(before)
    .slice(after)
    .map(({ name }) => name);
  return `${names.join(', ')} ${names.length === 1 ? 'goes' : 'go'}, with the Ephemeral disks of VMs there`;
}
