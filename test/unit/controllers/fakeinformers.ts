import type { KubeObject, Resource } from '../../../src/api/object.ts';
import type { Informers } from '../../../src/controller/informers.ts';
import type { Change, IndexFunction, InformerOptions } from '../../../src/kube/types.ts';

type Options<T extends KubeObject> = Pick<
  InformerOptions<T>,
  'namespace' | 'labelSelector' | 'fieldSelector' | 'indexes'
>;

/** A cache that has what the test gives it, and tells of the changes that the test makes up. */
export class FakeInformer<T extends KubeObject> {
  readonly resource: Resource<T>;
  objects: readonly T[] = [];
  /** Called with `namespace/name` of each object that is asked for by its name. */
  asked: (key: string) => void = () => undefined;
  /** Called with each namespace whose objects are listed; undefined: of all. */
  listed: (namespace: string | undefined) => void = () => undefined;
  readonly #handlers: ((change: Change<T>) => void)[] = [];
  readonly #indexes: Record<string, IndexFunction<T>> = {};

  constructor(resource: Resource<T>) {
    this.resource = resource;
  }

  /** As a watch says it. */
  tell(change: Change<T>): void {
    for (const handler of this.#handlers) handler(change);
  }

  get(name: string, namespace?: string): T | undefined {
    this.asked(namespace === undefined ? name : `${namespace}/${name}`);
    return this.objects.find(
      ({ metadata }) => metadata?.name === name && (metadata.namespace ?? '') === (namespace ?? ''),
    );
  }

  list(namespace?: string): readonly T[] {
    this.listed(namespace);
    return this.objects.filter(
      ({ metadata }) => namespace === undefined || metadata?.namespace === namespace,
    );
  }

  byIndex(index: string, value: string): readonly T[] {
    return this.objects.filter((object) => this.#indexes[index]?.(object).includes(value) === true);
  }

  addIndexes(indexes: Record<string, IndexFunction<T>>): void {
    Object.assign(this.#indexes, indexes);
  }

  onChange(handler: (change: Change<T>) => void): void {
    this.#handlers.push(handler);
  }

  hasSynced(): boolean {
    return true;
  }

  async synced(): Promise<void> {}
}

/** The caches of a process, each made at first asking. */
export class FakeInformers {
  readonly #made = new Map<string, FakeInformer<KubeObject>>();

  get<T extends KubeObject>(resource: Resource<T>, options: Options<T> = {}): FakeInformer<T> {
    const { namespace, labelSelector, fieldSelector, indexes = {} } = options;
    const key = JSON.stringify([resource.plural, namespace, labelSelector, fieldSelector]);
    const known = this.#made.get(key) as unknown as FakeInformer<T> | undefined;
    const informer = known ?? new FakeInformer(resource);
    if (known === undefined) this.#made.set(key, informer as unknown as FakeInformer<KubeObject>);
    informer.addIndexes(indexes);
    return informer;
  }

  /** To be given to a controller. */
  asInformers(): Informers {
    return this as unknown as Informers;
  }

  /** The one cache of this resource, however it is selected. */
  of<T extends KubeObject>(resource: Resource<T>, selection = ''): FakeInformer<T> {
    const found = [...this.#made].find(
      ([key]) => key.startsWith(`["${resource.plural}"`) && key.includes(selection),
    );
    if (found === undefined) throw new Error(`nobody has asked for ${resource.plural}`);
    return found[1] as unknown as FakeInformer<T>;
  }
}
