/** What a day with VMs needs, said to kubectl, to the command line and over HTTP; and what each of them then shows. */
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'undici';
import { formatGi, parseQuantity } from '../../src/api/quantity.ts';
import type { E2eCluster } from '../support/e2e.ts';

export const namespace = 'svc3-default';

/** A VM, as every surface shows it. */
export interface Seen {
  readonly status: string;
  readonly cpu: number;
  readonly memory: string;
  readonly image: string;
  readonly node: string | undefined;
  readonly ssh: number;
  readonly config: string | undefined;
}

export interface SeenImage {
  readonly name: string;
  readonly state: string;
  readonly description: string | undefined;
}

export interface SeenConfig {
  readonly name: string;
  readonly cpu: number | undefined;
  readonly memory: number | undefined;
}

export interface Wanted {
  readonly image?: string;
  readonly config?: string;
}

export type Verb = 'start' | 'stop' | 'restart' | 'suspend' | 'resume' | 'revert';

/** What all surfaces do. */
export interface Surface {
  readonly name: string;
  exec(vm: string, verb: Verb): Promise<void>;
  vms(): Promise<string[]>;
  /** Undefined where there is none. */
  vm(name: string): Promise<Seen | undefined>;
  images(): Promise<SeenImage[]>;
  configs(): Promise<SeenConfig[]>;
  tag(node: string, tag: string): Promise<void>;
  untag(node: string, tag: string): Promise<void>;
  tags(node: string): Promise<string[]>;
}

/** What some of them do, and the others see and go on with. */
interface Deeds {
  deploy(vm: string, wanted: Wanted): Promise<void>;
  remove(vm: string): Promise<void>;
  save(vm: string, image: string): Promise<void>;
  commit(vm: string, image: string): Promise<void>;
  describeImage(image: string, text: string): Promise<void>;
  copyImage(image: string, to: string): Promise<void>;
  removeImage(image: string): Promise<void>;
  createConfig(name: string, settings: { image: string; cpu: number; memory: number }): Promise<void>;
  removeConfig(name: string): Promise<void>;
}

export type KubectlSurface = Surface &
  Pick<Deeds, 'deploy' | 'remove' | 'commit' | 'describeImage' | 'removeImage'>;
export type CliSurface = Surface & Pick<Deeds, 'remove' | 'copyImage' | 'createConfig'>;
export type HttpSurface = Surface &
  Pick<Deeds, 'deploy' | 'save' | 'removeImage' | 'removeConfig'> & { close(): Promise<void> };

/** Members of replies that are looked into as a script would. */
// oxlint-disable-next-line typescript/no-explicit-any -- replies are looked into as a script would
type Item = any;

function seen(item: Item): Seen {
  const { status, cpu, memory, image, node, ssh, vmConfig } = item;
  return { status, cpu, memory, image, node, ssh, config: vmConfig };
}

const imageOf = ({ name, state, description }: Item): SeenImage => ({ name, state, description });
const configOf = ({ name, cpu, memory }: Item): SeenConfig => ({ name, cpu, memory });
const byName = <T extends { readonly name: string }>(items: readonly T[]): T[] =>
  items.toSorted((a, b) => (a.name < b.name ? -1 : 1));

export function kubectlSurface({ kubectl }: E2eCluster): KubectlSurface {
  const inNamespace = ['-n', namespace] as const;
  const items = async (resource: string): Promise<Item[]> =>
    (JSON.parse(await kubectl('get', resource, ...inNamespace, '-o', 'json')) as { items: Item[] }).items;
  const patch = (resource: string, name: string, spec: object) =>
    kubectl('patch', resource, ...inNamespace, name, '--type=merge', '-p', JSON.stringify({ spec }));
  const make = (kind: string, name: string, spec: object) =>
    kubectl.apply({ apiVersion: 'svc3.dev/v1', kind, metadata: { name, namespace }, spec });
  const remove = (resource: string, name: string) =>
    kubectl('delete', resource, ...inNamespace, name, '--wait');
  const powerStates = { start: 'Running', stop: 'Stopped', suspend: 'Suspended', resume: 'Running' } as const;
  const isReady = (item: Item) =>
    item.status?.conditions?.some((one: Item) => one.type === 'Ready' && one.status === 'True');
  return {
    name: 'kubectl',
    deploy: async (vm, { image, config }) => {
      const named = {
        ...(image === undefined ? {} : { image }),
        ...(config === undefined ? {} : { config }),
      };
      const size = config === undefined ? { cpu: 1, memory: '256Mi' } : {};
      await make('VM', vm, { ...named, ...size });
      await kubectl('wait', ...inNamespace, `vm/${vm}`, '--for=condition=Booted', '--timeout=180s');
    },
    async exec(vm, verb) {
      const request = randomUUID();
      if (verb === 'restart') await patch('vm', vm, { restartRequest: request });
      else if (verb === 'revert') await patch('vm', vm, { revertRequest: request });
      else if (verb === 'start') await patch('vm', vm, { powerState: 'Running', startRequest: request });
      else await patch('vm', vm, { powerState: powerStates[verb] });
    },
    remove: async (vm) => void (await remove('vm', vm)),
    vms: async () => (await items('vms.svc3.dev')).map(({ metadata }) => metadata.name as string),
    async vm(name) {
      const vm = (await items('vms.svc3.dev')).find(({ metadata }) => metadata.name === name);
      if (vm === undefined) return undefined;
      const { effective = {}, node, ports = {}, powerState = 'Pending' } = vm.status ?? {};
      return {
        status: powerState,
        cpu: effective.cpu,
        memory: formatGi(parseQuantity(effective.memory ?? '0', 'memory')),
        image: vm.spec.image ?? effective.imageName ?? effective.image,
        node,
        ssh: ports.ssh,
        config: vm.spec.config,
      };
    },
    commit: async (vm, image) =>
      void (await patch('image', image, { commit: { vm, request: randomUUID() } })),
    images: async () =>
      byName(
        (await items('images.svc3.dev')).map((item) => ({
          name: item.metadata.name,
          state: isReady(item) === true ? 'Ready' : 'Updating',
          description: item.spec.description,
        })),
      ),
    describeImage: async (image, description) => void (await patch('image', image, { description })),
    removeImage: async (image) => void (await remove('image', image)),
    configs: async () =>
      byName(
        (await items('vmconfigs.svc3.dev')).map(({ metadata, spec }) => ({
          name: metadata.name,
          cpu: spec.cpu,
          memory: spec.memory === undefined ? undefined : parseQuantity(spec.memory, 'memory') / 2 ** 30,
        })),
      ),
    tag: async (node, tag) => void (await kubectl('label', 'node', node, `tag.svc3.dev/${tag}=true`)),
    untag: async (node, tag) => void (await kubectl('label', 'node', node, `tag.svc3.dev/${tag}-`)),
    async tags(node) {
      const { metadata } = JSON.parse(await kubectl('get', 'node', node, '-o', 'json'));
      const keys = Object.keys(metadata.labels as object);
      return keys
        .filter((key) => key.startsWith('tag.svc3.dev/'))
        .map((key) => key.slice(13))
        .toSorted();
    },
  };
}

export function cliSurface(cluster: E2eCluster): CliSurface {
  const run = async (...words: string[]): Promise<string> => {
    const { code, stdout, stderr } = await cluster.svc3(...words, '-n', namespace);
    if (code !== 0) throw new Error(`svc3 ${words.join(' ')}: ${stderr}`);
    return stdout;
  };
  const items = async (noun: string): Promise<Item[]> =>
    JSON.parse(await run(noun, 'list', '-o', 'json')) as Item[];
  return {
    name: 'svc3',
    exec: async (vm, verb) => void (await run('vm', verb, vm)),
    remove: async (vm) => void (await run('vm', 'delete', vm)),
    vms: async () => (await items('vm')).map(({ name }) => name as string),
    async vm(name) {
      const item = (await items('vm')).find((one) => one.name === name);
      return item === undefined ? undefined : seen(item);
    },
    images: async () => byName((await items('image')).map(imageOf)),
    copyImage: async (image, to) => void (await run('image', 'copy', image, to)),
    createConfig: async (name, { image, cpu, memory }) =>
      void (await run('vmc', 'create', name, '-i', image, '-c', `${cpu}`, '-m', `${memory}`)),
    configs: async () => byName((await items('vmc')).map(configOf)),
    tag: async (node, tag) => void (await run('node', 'tag', node, tag)),
    untag: async (node, tag) => void (await run('node', 'untag', node, tag)),
    async tags(node) {
      const item = (await items('node')).find(({ name }) => name === node);
      return (item.tags as string[]).toSorted();
    },
  };
}

/** Over HTTP, with a token. */
export function httpSurface(baseUrl: string, ca: string, token: string): HttpSurface {
  const agent = new Agent({ connect: { ca } });
  async function call(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<Item> {
    const reply = await request(`${baseUrl}/api/v1/namespaces/${namespace}${path}`, {
      dispatcher: agent,
      method,
      headersTimeout: 240_000,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const said = (await reply.body.json()) as Item;
    if (reply.statusCode >= 400) throw new Error(`${method} ${path}: ${reply.statusCode} ${said.message}`);
    return said;
  }
  const items = async (path: string): Promise<Item[]> => (await call('GET', path)).items as Item[];
  return {
    name: 'HTTP',
    close: () => agent.close(),
    deploy: async (vm, { image, config }) =>
      void (await call('POST', '/vms', {
        name: vm,
        ...(image === undefined ? {} : { image }),
        ...(config === undefined ? { cpu: 1, memory: 0.25 } : { vmConfig: config }),
      })),
    exec: async (vm, command) => void (await call('POST', `/vms/${vm}/exec`, { command })),
    vms: async () => (await items('/vms')).map(({ name }) => name as string),
    async vm(name) {
      const item = (await items('/vms')).find((one) => one.name === name);
      return item === undefined ? undefined : seen(item);
    },
    save: async (vm, image) => void (await call('POST', `/vms/${vm}/save`, { imageName: image })),
    images: async () => byName((await items('/images')).map(imageOf)),
    removeImage: async (image) => void (await call('DELETE', `/images/${image}`)),
    configs: async () => byName((await items('/vmconfigs')).map(configOf)),
    removeConfig: async (name) => void (await call('DELETE', `/vmconfigs/${name}`)),
    tag: async (node, tag) => void (await call('POST', `/nodes/${node}/tag`, { tag })),
    untag: async (node, tag) => void (await call('POST', `/nodes/${node}/untag`, { tag })),
    tags: async (node) => ((await call('GET', `/nodes/${node}`)).tags as string[]).toSorted(),
  };
}
