import type { DeployItem } from '../../../wire/vmschemas.ts';
import { call, inNamespace } from './api.ts';
import { SchemaForm } from './form.tsx';
import type { Items } from './items.ts';
import { useFields } from './openapi.ts';
import { Waiting } from './parts.tsx';
import { linkTo } from './place.ts';

/** Other names of what the form has in `disk`. */
const aliases = new Set(['diskStorage', 'diskSize']);
const first = ['name', 'vmConfig', 'pool', 'image', 'cpu', 'memory', 'gpuPassthrough'];

export function namesIn(
  items: ReadonlyMap<string, { name: string; namespace: string }>,
  namespace: string,
): string[] {
  return [...items.values()].filter((item) => item.namespace === namespace).map(({ name }) => name);
}

/** A new VM, by the form that the server's schema makes. */
export function Deploy({ items, namespace }: { readonly items: Items; readonly namespace: string }) {
  const { fields, problem } = useFields('DeployRequest');
  async function send(body: Readonly<Record<string, unknown>>): Promise<void> {
    const path = `${inNamespace(namespace, 'vms')}?wait=false`;
    const { body: made } = await call<DeployItem>('POST', path, body);
    location.hash = linkTo('vms', namespace, made.name);
  }
  return (
    <main>
      <h1>Deploy a VM in {namespace}</h1>
      {fields === undefined ? (
        <Waiting problem={problem} />
      ) : (
        <SchemaForm
          fields={fields.filter(({ path }) => !aliases.has(path))}
          first={first}
          suggestions={{
            image: namesIn(items.images, namespace),
            iso: namesIn(items.isos, namespace),
            vmConfig: namesIn(items.vmConfigs, namespace),
            pool: namesIn(items.vmPools, namespace),
          }}
          verb="Deploy"
          send={send}
        />
      )}
    </main>
  );
}
