import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseAllDocuments } from 'yaml';
import type { CustomResourceDefinition } from '../../src/api/core.ts';
import { customResourceDefinitions } from './resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';

/** What of a definition says where it is served. */
interface DefinitionSpec {
  group: string;
  names: { plural: string };
  versions: { name: string }[];
}

const crdsDir = join(import.meta.dirname, '../../crds');

/** `crds/*.yaml`. */
async function ownDefinitions(): Promise<CustomResourceDefinition[]> {
  const files = (await readdir(crdsDir)).filter((name) => name.endsWith('.yaml'));
  const texts = await Promise.all(files.map((name) => readFile(join(crdsDir, name), 'utf8')));
  return texts
    .flatMap((text) => parseAllDocuments(text))
    .map((document) => document.toJS() as CustomResourceDefinition);
}

/** Applies definitions, those of `crds/*.yaml` where none are given, and waits until the API server serves them. */
export async function installDefinitions(
  client: KubeClient,
  given?: readonly CustomResourceDefinition[],
): Promise<void> {
  const definitions = given ?? (await ownDefinitions());
  await Promise.all(definitions.map((definition) => client.apply(customResourceDefinitions, definition)));
  const deadline = performance.now() + 60_000;
  for (const { metadata } of definitions) {
    const name = metadata?.name ?? '';
    while (!(await isServed(client, name))) {
      if (performance.now() > deadline) throw new Error(`the API server does not serve ${name}`);
      await delay(50);
    }
  }
}

/** Established, and listable: the handler comes a moment after the condition. */
async function isServed(client: KubeClient, name: string): Promise<boolean> {
  const definition = await client.get(customResourceDefinitions, name);
  const established = definition.status?.conditions?.some(
    ({ type, status }) => type === 'Established' && status === 'True',
  );
  if (established !== true) return false;
  const { group, names, versions } = definition.spec as unknown as DefinitionSpec;
  const served = await Promise.all(
    versions.map(({ name: version }) =>
      client.request({ method: 'GET', path: `/apis/${group}/${version}/${names.plural}?limit=1` }).then(
        () => true,
        () => false,
      ),
    ),
  );
  return served.every(Boolean);
}
