/** Writes down what the watches see, from the start to the end, in memory and in the folder of the run. */
import type { Endpoint } from '../https.ts';
import { type Canaries, leaksIn, withoutSecrets } from './canaries.ts';
import type { History, ResourceName, Sight, Watched } from './history.ts';
import type { RunLog } from './log.ts';
import { watch } from './watch.ts';

const paths: Record<ResourceName, string> = {
  pods: '/api/v1/pods',
  vms: '/apis/svc3.dev/v1/vms',
  images: '/apis/svc3.dev/v1/images',
  registrycredentials: '/apis/svc3.dev/v1/registrycredentials',
  persistentvolumeclaims: '/api/v1/persistentvolumeclaims',
  secrets: '/api/v1/secrets',
  events: '/apis/events.k8s.io/v1/events',
  nodes: '/api/v1/nodes',
  namespaces: '/api/v1/namespaces',
};

export interface Recorder {
  /** What is there now, as the watch has it. */
  current<R extends ResourceName>(resource: R, namespace?: string): Watched[R][];
  /** Called after each sight was written down. */
  onSight(listener: (sight: Sight) => void): void;
  stop(): Promise<void>;
}

export interface RecorderOptions {
  readonly endpoint: Endpoint;
  readonly history: History;
  readonly log: RunLog;
  readonly canaries: Canaries;
}

export function startRecorder({ endpoint, history, log, canaries }: RecorderOptions): Recorder {
  const abort = new AbortController();
  const now = new Map<ResourceName, Map<string, Watched[ResourceName]>>();
  const listeners: ((sight: Sight) => void)[] = [];
  const take = (sight: Sight): void => {
    const all = now.get(sight.resource) ?? new Map<string, Watched[ResourceName]>();
    now.set(sight.resource, all);
    const uid = sight.object.metadata.uid ?? '';
    if (sight.type === 'DELETED') all.delete(uid);
    else all.set(uid, sight.object);
    history.sights.push(sight);
    log.write(sight.resource, sight);
    for (const listener of listeners) listener(sight);
  };
  const leaked = (resource: ResourceName, object: Watched[ResourceName]): void => {
    for (const of of leaksIn(canaries, resource, object)) {
      const { namespace = '', name } = object.metadata;
      const leak = { at: Date.now(), of, where: `${resource} ${namespace}/${name}` };
      history.leaks.push(leak);
      log.write('leaks', leak);
    }
  };
  const watches = Object.entries(paths).map(([name, path]) => {
    const resource = name as ResourceName;
    const seen = (type: Sight['type'], object: Watched[ResourceName], isLate: boolean): void => {
      leaked(resource, object);
      take({ at: Date.now(), resource, type, isLate, object: trimmed(resource, object) });
    };
    const gap = (from: number, until: number, why: string): void => {
      history.gaps.push({ resource, from, until, why });
      log.write('gaps', { resource, from, until, why });
    };
    return watch<Watched[ResourceName]>(endpoint, path, { seen, gap }, abort.signal);
  });
  return {
    current: (resource, namespace) =>
      [...(now.get(resource)?.values() ?? [])].filter(
        ({ metadata }) => namespace === undefined || metadata.namespace === namespace,
      ) as never[],
    onSight: (listener) => void listeners.push(listener),
    async stop() {
      abort.abort();
      await Promise.all(watches);
    },
  };
}

function trimmed<T extends Watched[ResourceName]>(resource: ResourceName, object: T): T {
  const { managedFields: _managedFields, ...metadata } = object.metadata;
  return withoutSecrets(resource, { ...object, metadata });
}
