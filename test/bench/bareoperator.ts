/**
 * The least that an operator can be: for each VM a pod, for each pod that runs an apply of its VM's status, both as svc3 writes
 * them. Two watches and a fill-in; no cache, no placement, no events. What it takes, every operator in Node with such pods
 * and such a status takes on this machine. Reads a `BareOperator` as JSON from its standard input, says `watching` when it does.
 */
import { Agent, get, request } from 'node:https';
import { createInterface } from 'node:readline';
import { json, text } from 'node:stream/consumers';
import type { Pod } from '../../src/api/core.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { KubeObject } from '../../src/api/object.ts';

/** Paths are those of collections of one namespace. */
export interface BareOperator {
  /** Of kube-apiserver. */
  readonly origin: string;
  readonly caPem: string;
  readonly token: string;
  readonly podsPath: string;
  readonly vmsPath: string;
  readonly nodes: readonly string[];
  readonly template: Template;
}

/** One VM that svc3 has brought to Ready, and its pod: what is asked for others, with other names. */
export interface Template {
  readonly vm: Vm;
  readonly pod: Pod;
}

const { origin, caPem, token, podsPath, vmsPath, nodes, template } = (await json(
  process.stdin,
)) as BareOperator;
const agent = new Agent({ keepAlive: true, ca: caPem });
const headers = {
  authorization: `Bearer ${token}`,
  accept: 'application/json',
  'user-agent': 'bare-operator',
};

function write(method: string, path: string, contentType: string, body: string): void {
  const call = request(`${origin}${path}fieldManager=bare&fieldValidation=Ignore`, {
    method,
    agent,
    headers: { ...headers, 'content-type': contentType, 'content-length': Buffer.byteLength(body) },
  });
  call.once('response', (reply) => {
    void text(reply).then((said) => {
      if ((reply.statusCode ?? 0) >= 400) throw new Error(`${method} ${path}: ${said}`);
    });
  });
  call.end(body);
}

function watch(path: string, onEvent: (type: string, object: KubeObject) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const call = get(`${origin}${path}?watch=true`, { agent: false, ca: caPem, headers }, (reply) => {
      createInterface({ input: reply }).on('line', (line) => {
        const { type, object } = JSON.parse(line) as { type: string; object: KubeObject };
        onEvent(type, object);
      });
      resolve();
    });
    call.once('error', reject);
  });
}

const known = { name: template.vm.metadata.name ?? '', uid: template.vm.metadata.uid ?? '' };

/** The template's text with another VM's name and UID. */
function filledIn(pattern: string, vm: { name: string; uid: string }): string {
  return pattern.replaceAll(known.uid, vm.uid).replaceAll(known.name, vm.name);
}

function podPattern({ metadata, spec }: Pod): string {
  const { name, labels, annotations, ownerReferences } = metadata;
  // What kube-apiserver and kube-scheduler have filled in.
  const { nodeName: _bound, tolerations: _default, ...asked } = spec;
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels, annotations, ownerReferences },
    spec: asked,
  });
}

const podText = podPattern(template.pod);
const statusText = JSON.stringify(
  {
    apiVersion: template.vm.apiVersion,
    kind: template.vm.kind,
    metadata: { name: known.name, uid: known.uid },
    status: template.vm.status,
  },
  null,
  1,
);
const home = JSON.stringify(template.pod.spec.nodeName);
const placed = new Map<string, { name: string; uid: string }>();
let turn = 0;

await Promise.all([
  watch(vmsPath, (type, { metadata = {} }) => {
    if (type !== 'ADDED') return;
    const vm = { name: metadata.name ?? '', uid: metadata.uid ?? '' };
    placed.set(vm.uid, vm);
    const node = JSON.stringify(nodes[turn++ % nodes.length]);
    write('POST', `${podsPath}?`, 'application/json', filledIn(podText, vm).replaceAll(home, node));
  }),
  watch(podsPath, (_, object) => {
    const { metadata, status } = object as Pod;
    const vm = placed.get(metadata.ownerReferences?.[0]?.uid ?? '');
    if (vm === undefined || status?.phase !== 'Running') return;
    placed.delete(vm.uid);
    const path = `${vmsPath}/${vm.name}/status?force=true&`;
    write('PATCH', path, 'application/apply-patch+yaml', filledIn(statusText, vm));
  }),
]);
process.stdout.write('watching\n');
