import type { Pod } from '../../../api/core.ts';

/**
 * What is said where the runner at the pod's address does not show the certificate that is known of this pod: it is not called, and the guest is left
 * alone (docs/adr/0058-a-runner-with-another-certificate.md).
 */
export function otherCertificateMessage({ metadata: { namespace, name } }: Pod): string {
  return `the runner of pod ${namespace}/${name} shows another certificate than before: its volume was lost (node wiped, or etcd restored); delete the pod for another one`;
}
