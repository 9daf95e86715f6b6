/**
 * Deploys a VM, waits until it is Ready and prints where it is; deletes it again with --delete. Uses the kubeconfig's context:
 *   node docs/examples/deploy.ts hello registry.example.com/images/debian:12 svc3-default
 */
import { K8s } from 'kubernetes-fluent-client';
import { VM } from 'svc3/sdk/fluent';

const [name = 'hello', image = '', namespace = 'svc3-default', flag] = process.argv.slice(2);

async function untilReady(): Promise<VM> {
  return new Promise((resolve, reject) => {
    const watcher = K8s(VM, { name, namespace }).Watch((vm) => {
      const conditions = vm.status?.conditions ?? [];
      const stalled = conditions.find(({ type, status }) => type === 'Stalled' && status === 'True');
      if (stalled !== undefined) reject(new Error(`${stalled.reason}: ${stalled.message}`));
      else if (conditions.some(({ type, status }) => type === 'Ready' && status === 'True')) resolve(vm);
      else return;
      watcher.close();
    });
    watcher.start().catch(reject);
  });
}

if (flag === '--delete') {
  await K8s(VM, { namespace }).Delete(name);
  console.log(`${name} is being deleted`);
} else {
  await K8s(VM).Apply({ metadata: { name, namespace }, spec: { image, cpu: 1, memory: '256Mi' } });
  const { status } = await untilReady();
  console.log(`${name} runs on ${status?.node} (${status?.ip}), ssh port ${status?.ports?.ssh ?? 0}`);
}
