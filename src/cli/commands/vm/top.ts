import { command } from '../../command.ts';
import { allNamespacesOption, showNamespaced } from '../../listing.ts';
import { vmTopView } from '../../views.ts';

export const vmTop = command({
  path: ['vm', 'top'],
  summary: 'Show the CPU and memory that VMs use, beside what they have',
  description:
    "CPU (1000m is one core) and MEMORY are those of the VM's pod, with QEMU and the runner, as metrics-server saw them last; they are read at kube-apiserver with the right to pods of metrics.k8s.io. VM CPU and VM MEMORY are what the guest has. A pod without figures yet has dashes.",
  options: allNamespacesOption,
  examples: [
    { line: 'svc3 vm top', summary: 'VMs of the namespace' },
    { line: 'svc3 vm top -A', summary: 'Of all namespaces' },
  ],
  run: (context, { options }) =>
    showNamespaced(context, vmTopView, ({ vms }, namespace) => vms.top(namespace), options),
});
