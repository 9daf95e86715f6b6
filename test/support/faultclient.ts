import type { KubeClient } from '../../src/kube/types.ts';

export interface Write {
  readonly verb: 'create' | 'apply' | 'patch' | 'replace' | 'delete';
  readonly plural: string;
  readonly subresource: string | undefined;
  readonly name: string | undefined;
  readonly namespace: string | undefined;
  /** Of an object that would be created: nothing is written. */
  readonly dryRun?: boolean | undefined;
}

const keyOf = ({ name, namespace }: { name: string; namespace?: string }) => ({ name, namespace });

/** What happens to one write: done and answered, done but the answer never arrives, or never done. */
export type Fault = 'none' | 'lostAnswer' | 'lostRequest';

/**
 * The client with every write shown to `decide` first. A fault throws what a broken connection throws; after a crash
 * (`crash()`) nothing is written any more, as from a process that is gone.
 */
export function withFaults(
  client: KubeClient,
  decide: (write: Write) => Fault,
): { client: KubeClient; writes: Write[]; crash(): void } {
  const writes: Write[] = [];
  let crashed = false;
  const gone = () => new Error('the process is gone');
  async function guarded<T>(write: Write, send: () => Promise<T>): Promise<T> {
    if (crashed) throw gone();
    const fault = decide(write);
    if (fault === 'lostRequest') throw gone();
    writes.push(write);
    const reply = await send();
    if (fault === 'lostAnswer' || crashed) throw gone();
    return reply;
  }
  const wrapped: KubeClient = {
    get: (...args) => client.get(...args),
    list: (...args) => client.list(...args),
    request: (request) => client.request(request),
    stream: (request) => client.stream(request),
    withGuard: (guard) => client.withGuard(guard),
    withToken: (token) => client.withToken(token),
    close: async () => undefined,
    create: (resource, object, options) =>
      guarded(
        {
          verb: 'create',
          plural: resource.plural,
          subresource: options?.subresource,
          name: object.metadata?.name,
          namespace: object.metadata?.namespace,
          dryRun: options?.dryRun,
        },
        () => client.create(resource, object, options),
      ),
    apply: (resource, object, options) =>
      guarded(
        {
          verb: 'apply',
          plural: resource.plural,
          subresource: options?.subresource,
          name: object.metadata?.name,
          namespace: object.metadata?.namespace,
        },
        () => client.apply(resource, object, options),
      ),
    patch: (resource, key, patch, options) =>
      guarded(
        { verb: 'patch', plural: resource.plural, subresource: options?.subresource, ...keyOf(key) },
        () => client.patch(resource, key, patch, options),
      ),
    replace: (resource, object, options) =>
      guarded(
        {
          verb: 'replace',
          plural: resource.plural,
          subresource: options?.subresource,
          name: object.metadata?.name,
          namespace: object.metadata?.namespace,
        },
        () => client.replace(resource, object, options),
      ),
    delete: (resource, key, options) =>
      guarded({ verb: 'delete', plural: resource.plural, subresource: undefined, ...keyOf(key) }, () =>
        client.delete(resource, key, options),
      ),
  };
  return {
    client: wrapped,
    writes,
    crash() {
      crashed = true;
    },
  };
}
