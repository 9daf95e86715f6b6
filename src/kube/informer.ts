import { messageOf } from '../errors.ts';
import { Reflector } from './reflector.ts';
import { createStore } from './store.ts';
import type { KubeObject } from '../api/object.ts';
import type { Change, Informer, InformerOptions } from './types.ts';

/** An informer: a store kept true by a reflector, telling its handlers every change in the server's order. */
export function createInformer<T extends KubeObject>(options: InformerOptions<T>): Informer<T> {
  const { resource, log } = options;
  const store = createStore<T>(options.indexes);
  const handlers: ((change: Change<T>) => void)[] = [];
  const ready = Promise.withResolvers<void>();
  let synced = false;
  let running = false;

  function tell(changes: readonly Change<T>[]): void {
    for (const change of changes)
      for (const handler of handlers)
        try {
          handler(change);
        } catch (error) {
          log?.error({ resource: resource.plural, err: messageOf(error) }, 'change handler threw');
        }
  }

  const reflector = new Reflector(options, {
    replace(objects) {
      tell(store.replace(objects));
      if (!synced) {
        synced = true;
        ready.resolve();
      }
    },
    put: (object) => tell(store.put(object)),
    remove: (object) => tell(store.remove(object)),
  });

  return {
    resource,
    get: (name, namespace) => store.get(name, namespace),
    list: (namespace) => store.list(namespace),
    byIndex: (index, value) => store.byIndex(index, value),
    addIndexes(indexes) {
      if (running) throw new TypeError('add indexes before the informer runs');
      store.addIndexes(indexes);
    },
    onChange(handler) {
      if (running) throw new TypeError('register handlers before the informer runs');
      handlers.push(handler);
    },
    async run(signal) {
      if (running) throw new TypeError(`the informer of ${resource.plural} runs already`);
      running = true;
      await reflector.run(signal);
    },
    hasSynced: () => synced,
    synced: () => ready.promise,
    silenceMs: () => reflector.silenceMs(),
  };
}
