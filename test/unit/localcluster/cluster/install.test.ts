import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { installChart } from '../../../../src/localcluster/cluster/install.ts';
import { placesOf } from '../../../../src/localcluster/shared/state.ts';

interface Applied {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly stringData?: Readonly<Record<string, string>>;
}

/** What a cluster says of everything that is waited for. */
const rolledOut = JSON.stringify({
  metadata: { generation: 1 },
  spec: {},
  status: {
    observedGeneration: 1,
    replicas: 1,
    updatedReplicas: 1,
    availableReplicas: 1,
    desiredNumberScheduled: 1,
    updatedNumberScheduled: 1,
    numberAvailable: 1,
  },
});

/** What an installation applies beside the chart, and the values of that. */
async function install(registryPassword: string) {
  const home = await mkdtemp(join(tmpdir(), 'svc3-install-'));
  onTestFinished(() => rm(home, { recursive: true }));
  const places = placesOf('one', {}, home);
  const applied: Applied[] = [];
  const kubectl = Object.assign(() => Promise.resolve(rolledOut), {
    apply: async (...objects: object[]): Promise<void> => void applied.push(...(objects as Applied[])),
  });
  const image = { repository: '10.231.0.2:5000/svc3/svc3', tag: 'new' };
  await installChart(
    {
      places,
      settings: {
        nodes: 1,
        addons: { dns: false, metrics: false, networkPolicies: false },
        gpuPassthrough: true,
        ports: { kubernetes: 1, registry: 2, api: 3 },
        registryPassword,
      },
      // Helm.
      tools: { path: () => '/bin/true', folders: [] },
      kubectl,
      build: { cache: places.cache, signal: new AbortController().signal, progress: () => undefined },
    },
    { svc3: image, runner: image, guest: { disk: '', hash: 'abc' } },
  );
  const values = await readFile(join(places.state, 'run', 'values.json'), 'utf8');
  return { applied, values };
}

test('pods of svc3 can pull a new build where it is not brought to, with a login that is in both namespaces', async () => {
  const { applied, values } = await install('pass word');
  const auth = Buffer.from('svc3:pass word').toString('base64');
  const { image } = JSON.parse(values) as { image: { pullSecrets: { name: string }[] } };
  expect(image).toMatchObject({ repository: '10.231.0.2:5000/svc3/svc3', tag: 'new' });
  const [{ name } = { name: '' }] = image.pullSecrets;
  expect(applied.filter(({ kind, metadata }) => kind === 'Secret' && metadata.name === name)).toMatchObject(
    ['svc3-system', 'svc3-node'].map((namespace) => ({
      metadata: { namespace },
      type: 'kubernetes.io/dockerconfigjson',
      stringData: { '.dockerconfigjson': JSON.stringify({ auths: { '10.231.0.2:5000': { auth } } }) },
    })),
  );
  expect(values).not.toContain(auth);
});
