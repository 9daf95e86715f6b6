/** What a tenant does at random: VMs, images, power verbs, saves followed by deletes. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Image } from '../../../src/api/image.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { svc3 } from '../../support/svc3cli.ts';
import type { Random } from '../random.ts';
import type { Operation, Verb } from '../record/history.ts';
import type { Recorder } from '../record/recorder.ts';
import type { Markers } from './markers.ts';
import type { Operations, Tenant } from './tenant.ts';

/** Reaches into a running guest. */
export type Ssh = (address: { ip: string; port: number }, command: string) => Promise<string>;

export interface WorkloadOptions {
  readonly tenant: Tenant;
  readonly random: Random;
  readonly recorder: Recorder;
  readonly operations: Operations;
  readonly markers: Markers;
  readonly ssh: Ssh;
  /** The guest's image in the store. */
  readonly guestImage: string;
}

/** Two processors emulate all guests: more of them would only wait for each other. */
const mostVms = 7;
const mostVmsOfOne = 3;
const mostImagesOfOne = 6;

/** Guests are asked by SSH what they have, once all have come to rest; their agent answers before SSH does. */
const readiness = { tcp: { port: 22 } };

interface Step {
  readonly weight: number;
  readonly value: () => Promise<unknown>;
}

export class Workload {
  readonly #options: WorkloadOptions;
  #number = 0;

  constructor(options: WorkloadOptions) {
    this.#options = options;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { random } = this.#options;
    while (!signal.aborted) {
      await delay(random.between(500, 5_000), undefined, { signal }).catch(() => undefined);
      const steps = signal.aborted ? [] : this.#steps();
      if (steps.length > 0) await random.weighted(steps)();
    }
  }

  #vms(): Vm[] {
    const { recorder, tenant } = this.#options;
    return recorder.current('vms', tenant.namespace).filter(isStaying);
  }

  #images(): Image[] {
    const { recorder, tenant } = this.#options;
    return recorder.current('images', tenant.namespace).filter(isStaying);
  }

  /** What could be done now. */
  #steps(): Step[] {
    const vms = this.#vms();
    const images = this.#images();
    const running = vms.filter((vm) => vm.status?.powerState === 'Running');
    const withDisk = vms.filter((vm) => vm.status?.powerState !== undefined);
    const ready = images.filter(isReady);
    const hasRoom = vms.length < mostVmsOfOne && this.#options.recorder.current('vms').length < mostVms;
    const mayMake = images.length < mostImagesOfOne;
    const on = <T>(weight: number, list: readonly T[], act: (one: T) => Promise<unknown>): Step[] =>
      list.length === 0 ? [] : [{ weight, value: () => act(this.#options.random.pick(list)) }];
    // What a guest has written is what a save can lose.
    const marked = withDisk.filter((vm) => this.#lastMarker(vm) !== undefined);
    const replaceable = images.filter((image) => image.spec.source.vm === undefined);
    const isFull = images.length >= mostImagesOfOne;
    return [
      ...(hasRoom ? [{ weight: 12, value: () => this.#deploy(ready) }] : []),
      ...on(1, withDisk, (vm) => this.#delete(vm)),
      ...on(0.5, vms, (vm) => this.#delete(vm)),
      ...on(6, running, (vm) => this.#mark(vm)),
      ...on(3, withDisk, (vm) => this.#power(vm)),
      ...on(mayMake ? 4 : 0, marked, (vm) => this.#save(vm)),
      ...on(mayMake ? 1 : 0, withDisk, (vm) => this.#save(vm)),
      ...on(
        2,
        withDisk.filter((vm) => isOwnImage(vm, images)),
        (vm) => this.#commit(vm),
      ),
      ...on(mayMake ? 1.5 : 0, ready, (image) => this.#copy(image)),
      ...(mayMake ? [{ weight: 0.7, value: () => this.#blank() }] : []),
      ...on(isFull ? 6 : 0.5, replaceable, (image) => this.#deleteImage(image)),
      ...on(isFull ? 2 : 0.3, images, (image) => this.#deleteImage(image)),
    ].filter(({ weight }) => weight > 0);
  }

  #name(prefix: string): string {
    return `${prefix}-${++this.#number}-${this.#options.random.word(3)}`.replace(/-(\d)/, '-n$1');
  }

  #path(rest: string): string {
    return `/api/v1/namespaces/${this.#options.tenant.namespace}/${rest}`;
  }

  /** Through kube-apiserver as `kubectl apply` does, or through the HTTP API. */
  async #deploy(ready: readonly Image[]): Promise<void> {
    const { random, tenant, operations, guestImage } = this.#options;
    const name = this.#name('vm');
    const bootable = ready.filter((image) => !isBlank(image));
    const image =
      bootable.length > 0 && random.chance(0.5)
        ? (random.pick(bootable).metadata.name ?? guestImage)
        : guestImage;
    const isPersistent = random.chance(0.4);
    const asked = { verb: 'deploy', namespace: tenant.namespace, name } as const;
    if (!isPersistent && random.chance(0.4)) {
      const body = { name, image, cpu: 1, memory: 0.25, readiness };
      const path = this.#path('vms?wait=false');
      await operations.http(tenant.api, { ...asked, via: 'http' }, { method: 'POST', path, body });
      return;
    }
    const body = {
      apiVersion: 'svc3.dev/v1',
      kind: 'VM',
      metadata: { name, namespace: tenant.namespace },
      spec: {
        image,
        cpu: 1,
        memory: '256Mi',
        readiness,
        ...(isPersistent ? { disk: { storage: 'Persistent', size: '256Mi', whenDeleted: 'Delete' } } : {}),
        ...(random.chance(0.3) ? { startDeadlineSeconds: random.between(60, 180) } : {}),
      },
    };
    const path = `/apis/svc3.dev/v1/namespaces/${tenant.namespace}/vms`;
    await operations.http(tenant.kube, { ...asked, via: 'kubectl' }, { method: 'POST', path, body });
  }

  async #delete(vm: Vm): Promise<Operation> {
    const { random, tenant, operations } = this.#options;
    const name = vm.metadata.name ?? '';
    if (random.chance(0.5)) {
      const path = this.#path(`vms/${name}?wait=false`);
      return operations.http(tenant.api, this.#about(vm, 'delete', 'http'), { method: 'DELETE', path });
    }
    const path = `/apis/svc3.dev/v1/namespaces/${tenant.namespace}/vms/${name}`;
    return operations.http(tenant.kube, this.#about(vm, 'delete', 'kubectl'), { method: 'DELETE', path });
  }

  #about(vm: Vm, verb: Verb, via: Operation['via']) {
    const { name, namespace, uid } = vm.metadata;
    return { verb, via, namespace, name, vmUid: uid };
  }

  async #power(vm: Vm): Promise<void> {
    const { random, tenant, operations, markers } = this.#options;
    const fitting: Record<string, readonly Verb[]> = {
      Running: ['stop', 'suspend', 'revert'],
      Stopped: ['start', 'start', 'start', 'revert'],
      Suspended: ['resume', 'resume', 'stop'],
      Failed: ['start', 'stop', 'revert'],
    };
    const verb: Verb = random.pick(fitting[vm.status?.powerState ?? 'Running'] ?? (['start'] as const));
    if (verb === 'revert') markers.forget(vm.metadata.uid ?? '');
    const request = {
      method: 'POST',
      path: this.#path(`vms/${vm.metadata.name}/exec?wait=false`),
      body: { command: verb },
    };
    await operations.http(tenant.api, this.#about(vm, verb, 'http'), request);
  }

  /** Has the guest write something that must not be lost any more. */
  async #mark(vm: Vm): Promise<void> {
    const { random, tenant, operations, markers, ssh } = this.#options;
    const { ip, ports, runner } = vm.status ?? {};
    if (ip === undefined || (ports?.ssh ?? 0) === 0) return;
    const uid = vm.metadata.uid ?? '';
    const marker = `marker-${tenant.namespace}-${random.word(16)}`;
    const script = `for i in 1 2 3 4 5 6 7 8; do echo ${marker}; done > ${marker} && sync && echo kept`;
    await operations.carryOut(this.#about(vm, 'mark', 'ssh'), async () => {
      // The port may lead to another VM by now: the guest is asked for its name in the same breath.
      const guarded = `test "$(hostname)" = ${vm.metadata.name} && ${script}`;
      const said = await ssh({ ip, port: ports?.ssh ?? 0 }, guarded);
      if (said.trim() !== 'kept') return { outcome: 'refused', answer: said };
      const isPersistent = vm.spec.disk?.storage === 'Persistent';
      markers.add({ marker, vmUid: uid, podUid: runner?.podUid ?? '', isPersistent });
      return { outcome: 'accepted', answer: marker };
    });
  }

  /** As CI does it: save, and at once delete what was saved. */
  async #save(vm: Vm): Promise<void> {
    const { random, tenant, operations } = this.#options;
    const image = this.#name('saved');
    const isCli = random.chance(0.3);
    const marker = this.#lastMarker(vm);
    const about = this.#about(vm, 'save', isCli ? 'cli' : 'http');
    const asked = { ...about, image, ...(marker === undefined ? {} : { marker }) };
    const saved = isCli
      ? await operations.carryOut(asked, () => this.#saveByCli(vm, image))
      : await operations.http(tenant.api, asked, {
          method: 'POST',
          path: this.#path(`vms/${vm.metadata.name}/save`),
          body: { imageName: image },
        });
    if (saved.outcome === 'accepted' && random.chance(0.5)) await this.#delete(vm);
  }

  #lastMarker({ metadata, status }: Vm): string | undefined {
    return this.#options.markers.of(metadata.uid ?? '', status?.runner?.podUid).at(-1);
  }

  async #saveByCli(
    vm: Vm,
    image: string,
  ): Promise<{ outcome: 'accepted' | 'refused' | 'unknown'; answer: string }> {
    const { tenant } = this.#options;
    const words = ['vm', 'save', vm.metadata.name ?? '', image, '-n', tenant.namespace];
    const { code, stderr, stdout } = await svc3(words, { KUBECONFIG: tenant.kubeconfig });
    // It may have failed after the image was made.
    return { outcome: code === 0 ? 'accepted' : 'unknown', answer: `${code} ${stdout}${stderr}`.trim() };
  }

  async #commit(vm: Vm): Promise<void> {
    const { tenant, operations } = this.#options;
    const marker = this.#lastMarker(vm);
    const about = this.#about(vm, 'commit', 'http');
    const asked = { ...about, image: vm.spec.image ?? '', ...(marker === undefined ? {} : { marker }) };
    const path = this.#path(`vms/${vm.metadata.name}/commit`);
    await operations.http(tenant.api, asked, { method: 'POST', path, body: {} });
  }

  async #copy(source: Image): Promise<void> {
    const { tenant, operations } = this.#options;
    const image = this.#name(isBlank(source) ? 'blank' : 'copy');
    const name = source.metadata.name ?? '';
    const asked = { verb: 'copy', via: 'http', namespace: tenant.namespace, name, image } as const;
    const path = this.#path(`images/${name}/copy`);
    await operations.http(tenant.api, asked, { method: 'POST', path, body: { name: image } });
  }

  async #blank(): Promise<void> {
    const { tenant, operations } = this.#options;
    const name = this.#name('blank');
    const asked = { verb: 'blank', via: 'http', namespace: tenant.namespace, name, image: name } as const;
    const body = { name, size: '64Mi' };
    await operations.http(tenant.api, asked, { method: 'POST', path: this.#path('images'), body });
  }

  async #deleteImage(image: Image): Promise<void> {
    const { tenant, operations } = this.#options;
    const name = image.metadata.name ?? '';
    const asked = { verb: 'deleteImage', via: 'http', namespace: tenant.namespace, name } as const;
    const path = this.#path(`images/${name}`);
    await operations.http(tenant.api, asked, { method: 'DELETE', path });
  }
}

/** Nothing boots from it, nor from its copies, which are named so too. */
function isBlank({ metadata }: Image): boolean {
  return metadata.name?.startsWith('blank');
}

function isStaying({ metadata }: { metadata: { deletionTimestamp?: string } }): boolean {
  return metadata.deletionTimestamp === undefined;
}

export function isReady({ status }: Image): boolean {
  return status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
}

function isOwnImage(vm: Vm, images: readonly Image[]): boolean {
  return images.some(({ metadata }) => metadata.name === vm.spec.image);
}
