import { useContext, useEffect, useState } from 'preact/hooks';
import type { DeployItem } from '../../../wire/vmschemas.ts';
import { call, inNamespace } from './api.ts';
import { focusHeading } from './focus.ts';
import { SchemaForm } from './form.tsx';
import type { Items } from './items.ts';
import { Notify, useIsShown } from './notices.ts';
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

/** A VM that was made, but not all as it was asked for. */
interface Partly {
  readonly name: string;
  readonly notes: readonly string[];
}

/** A new VM, by the form that the server's schema makes. */
export function Deploy({ items, namespace }: { readonly items: Items; readonly namespace: string }) {
  const { fields, problem } = useFields('DeployRequest');
  const [partly, setPartly] = useState<Partly>();
  const isShown = useIsShown();
  const notify = useContext(Notify);
  async function send(body: Readonly<Record<string, unknown>>): Promise<void> {
    const path = `${inNamespace(namespace, 'vms')}?wait=false`;
    const { body: made, warnings } = await call<DeployItem>('POST', path, body);
    const { name, portWarnings = '' } = made;
    const notes = [portWarnings, ...warnings].filter((text) => text !== '');
    if (!isShown()) return notes.forEach((note) => notify(`Deploy ${name}: ${note}`));
    if (notes.length === 0) location.hash = linkTo('vms', namespace, name);
    else setPartly({ name, notes });
  }
  if (partly !== undefined) return <Made partly={partly} namespace={namespace} />;
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
          about={`Deploy a VM in ${namespace}`}
          verb="Deploy"
          send={send}
        />
      )}
    </main>
  );
}

/** What became of a deploy that left something out; its VM's own page knows nothing of it. */
function Made({
  partly: { name, notes },
  namespace,
}: {
  readonly partly: Partly;
  readonly namespace: string;
}) {
  // The button that had the focus is gone.
  useEffect(focusHeading, []);
  return (
    <main>
      <h1>Deploy a VM in {namespace}</h1>
      <div role="status">
        <p>
          <a href={linkTo('vms', namespace, name)}>{name}</a> is being started.
        </p>
        {notes.map((note) => (
          <p key={note} class="why">
            {note}
          </p>
        ))}
      </div>
    </main>
  );
}
