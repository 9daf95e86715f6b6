// Boots a VM and waits until it is Ready; the pod's ServiceAccount may do this in the default namespace only.
import { readFileSync } from 'node:fs';

const { NAMESPACE: namespace, IMAGE: image, CPU: cpu, MEMORY: memory, TIMEOUT_SECONDS: timeout } = process.env;
const token = readFileSync('/var/run/secrets/kubernetes.io/serviceaccount/token', 'utf8');
const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = process.env;
const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
const name = 'svc3-boot-test';
const vms = `${server}/apis/svc3.dev/v1/namespaces/${namespace}/vms`;

async function call(method, url, body) {
  const reply = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(30_000),
  });
  return { status: reply.status, body: await reply.json() };
}

async function until(what, deadline, probe) {
  for (let last = ''; Date.now() < deadline; await new Promise((resolve) => setTimeout(resolve, 1000))) {
    const { done, text } = await probe();
    if (text !== last) console.log(text);
    last = text;
    if (done) return;
  }
  throw new Error(`${what} took longer than ${timeout} s`);
}

const deadline = Date.now() + Number(timeout) * 1000;

async function remove() {
  await call('DELETE', `${vms}/${name}`);
  await until('deleting the VM', deadline + 60_000, async () => {
    const { status } = await call('GET', `${vms}/${name}`);
    return { done: status === 404, text: status === 404 ? 'deleted' : 'deleting' };
  });
}

if (image === '') {
  console.error('set the chart value test.image to an image that this cluster can pull');
  process.exit(2);
}
await remove();
const created = await call('POST', vms, {
  apiVersion: 'svc3.dev/v1',
  kind: 'VM',
  metadata: { name },
  spec: { image, cpu: Number(cpu), memory },
});
if (created.status !== 201) {
  console.error(created.body.message);
  process.exit(1);
}
try {
  await until('booting the VM', deadline, async () => {
    const { body } = await call('GET', `${vms}/${name}`);
    const conditions = body.status?.conditions ?? [];
    const ready = conditions.find(({ type }) => type === 'Ready');
    const text = conditions.filter(({ status, message }) => status !== 'True' && message !== '').map(({ type, message }) => `${type}: ${message}`).join('; ');
    return { done: ready?.status === 'True', text: ready?.status === 'True' ? 'the VM runs' : text || 'waiting' };
  });
} finally {
  await remove();
}
