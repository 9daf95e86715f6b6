import { isSvc3Error } from '../../../errors.ts';
import { command } from '../../command.ts';
import { allNamespacesOption, showNamespaced } from '../../listing.ts';
import { metricsGroup } from '../../service/types.ts';
import type { Service } from '../../service/types.ts';
import { vmTopView } from '../../views.ts';

export const vmTop = command({
  path: ['vm', 'top'],
  summary: 'Show the CPU and memory that VMs use, beside what they have',
  description:
    "CPU (1000m is one core) and MEMORY are those of the VM's pod, with QEMU and the runner, as metrics-server saw them last; they are read at kube-apiserver with the right to pods of metrics.k8s.io; with -A a warning names the namespaces without it. VM CPU and VM MEMORY are what the guest has. A pod without figures yet has dashes.",
  options: allNamespacesOption,
  examples: [
    { line: 'svc3 vm top', summary: 'VMs of the namespace' },
    { line: 'svc3 vm top -A', summary: 'Of all namespaces' },
  ],
  async run(context, { options }) {
    const unread: string[] = [];
    const top = async ({ vms }: Service, namespace: string) => {
      try {
        return await vms.top(namespace);
      } catch (error) {
        if (!options['all-namespaces'] || !areMetricsForbidden(error)) throw error;
        unread.push(namespace);
        return [];
      }
    };
    await showNamespaced(context, vmTopView, top, options, () => missingSentence(unread));
  },
});

/** The VMs may be listed, and what they use may not. */
function areMetricsForbidden(error: unknown): boolean {
  return isSvc3Error(error, 'Forbidden') && error.details.group === metricsGroup;
}

function missingSentence(namespaces: readonly string[]): string | undefined {
  if (namespaces.length === 0) return undefined;
  return `VMs of these namespaces are left out, you may not list pods of ${metricsGroup} there: ${namespaces.toSorted().join(', ')}`;
}
