import { namespaces, objectNames } from '../../src/api/meta.ts';
import { namespaces as namespaceResource, registryCredentials, secrets } from '../../src/api/resources.ts';
import { pullSecretLabels, pullSecretType } from '../../src/controllers/credential/decide.ts';
import { base64, dockerConfigJson } from '../../src/controllers/credential/dockerconfig.ts';
import { parseServer } from '../../src/registry/identity.ts';
import { createInformer } from '../../src/kube/informer.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import {
  basicAuth,
  credential,
  credentialCluster,
  published,
  startOperator,
} from '../integration/credential/harness.ts';
import { ownControlPlane } from '../support/controlplane.ts';
import { withFaults, type Write } from '../support/faultclient.ts';
import { type Benchmark, median, type Outcome, percentile, rounded, size } from './figures.ts';
import { inParallel } from '../support/parallel.ts';

export const benchmark: Benchmark = {
  about: 'changed passwords to pull Secrets, 1,000 namespaces beside a bare loop',
  settings: {
    SVC3_BENCH_NAMESPACES: '1000 namespaces in a round',
    SVC3_BENCH_ROUNDS: '4 rounds after one that does not count; an even number has both first equally often',
    SVC3_BENCH_CHANGES: '300 changed passwords',
  },
  measure,
};

async function measure(): Promise<Outcome> {
  const figures = await measureCredentials();
  return {
    rows: [figures],
    figures: [
      { what: 'changed password → pull Secret, ms P50', value: figures.fanOutP50, atMost: 50 },
      { what: 'changed password → pull Secret, ms P99', value: figures.fanOutP99, atMost: 250 },
      {
        what: 'rate beside a bare loop, from the first write to the last',
        value: figures.besideBareLoop,
        atLeast: 0.8,
      },
      {
        what: 'the same, from the start of the operator',
        value: figures.fromStartBesideBareLoop,
      },
      { what: 'writes per Secret', value: figures.writesPerSecret, atMost: 1 },
      { what: 'writes when converged', value: figures.writesWhenConverged, atMost: 0 },
    ],
  };
}

const servers = ['https://one.example.com', 'https://two.example.com:5000', 'https://three.example.com'];
const count = Math.max(1, size('SVC3_BENCH_NAMESPACES', 1_000));
const changes = size('SVC3_BENCH_CHANGES', 300);
/**
 * Each with an operator that has just started, after one that does not count. Whoever writes first meets a server that still clears up
 * after the preparations, so both go first equally often.
 */
const rounds = Math.max(1, size('SVC3_BENCH_ROUNDS', 4));
/** A namespace that comes when all others are as they are to be. */
const newcomer = 'newcomer';
/** Writes at the same time: as many as the operator has workers. */
const workers = 32;

function namesOf(prefix: string): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
}

async function prepare(client: KubeClient, names: readonly string[]): Promise<void> {
  await inParallel(names, workers, async (name) => {
    await client.create(namespaceResource, { metadata: { name } });
    for (const server of servers) {
      const wanted = credential(name, server);
      await client.create(secrets, basicAuth(wanted.spec.secretRef.name, 'robot', 'password-0'));
      await client.create(registryCredentials, wanted);
    }
  });
}

/** The limit: the same Secrets under another name, by nothing but a loop. Milliseconds. */
async function bareLoop(client: KubeClient, names: readonly string[], name: string): Promise<number> {
  const logins = servers.map((server) => ({
    registry: parseServer(server),
    username: 'robot',
    password: 'password-0',
  }));
  const data = { '.dockerconfigjson': base64(dockerConfigJson(logins)) };
  const began = performance.now();
  await inParallel(names, workers, (namespace) =>
    client.apply(secrets, {
      metadata: { name, namespace, labels: { ...pullSecretLabels } },
      type: pullSecretType,
      data,
    }),
  );
  return performance.now() - began;
}

interface Filling {
  /** From the start of the operator, its caches empty, to the last pull Secret. */
  readonly fromStartMs: number;
  /** From the first write to the last. */
  readonly writingMs: number;
  readonly writes: readonly Write[];
}

async function until(isTrue: () => boolean | Promise<boolean>, stepMs = 5): Promise<void> {
  while (!(await isTrue()))
    await new Promise((resolve) => {
      setTimeout(resolve, stepMs);
    });
}

/** Times of the writes to Secrets are those when they were answered. */
async function fill(client: KubeClient): Promise<Filling> {
  let first = Number.NaN;
  let last = Number.NaN;
  let done = 0;
  const timed: KubeClient = {
    ...client,
    async apply(resource, object, options) {
      if (resource.plural === 'secrets' && Number.isNaN(first)) first = performance.now();
      const written = await client.apply(resource, object, options);
      if (resource.plural === 'secrets') {
        done += 1;
        last = performance.now();
      }
      return written;
    },
  };
  const counted = withFaults(timed, () => 'none');
  const began = performance.now();
  const operator = await startOperator(counted.client);
  await until(() => done >= count);
  const filling = { fromStartMs: last - began, writingMs: last - first };
  // Statuses come after the Secrets; then everything has been looked at.
  await until(
    () =>
      counted.writes.filter(({ subresource }) => subresource === 'status').length >= count * servers.length,
  );
  await operator.stop();
  return { ...filling, writes: counted.writes };
}

/** Milliseconds from sending a new password to a watch that shows it in the pull Secret. */
async function fanOut(client: KubeClient, names: readonly string[]): Promise<number[]> {
  const stopping = new AbortController();
  const seen = new Map<string, (text: string) => void>();
  const informer = createInformer({
    client,
    resource: secrets,
    fieldSelector: `metadata.name=${objectNames.pullSecret}`,
  });
  informer.onChange(({ object }) => {
    const text = Buffer.from(object.data?.['.dockerconfigjson'] ?? '', 'base64').toString('utf8');
    seen.get(object.metadata.namespace ?? '')?.(text);
  });
  const watching = informer.run(stopping.signal);
  const operator = await startOperator(client);
  await informer.synced();
  await until(() => operator.pending() === 0, 100);
  const times: number[] = [];
  for (let turn = 0; turn < changes; turn += 1) {
    const namespace = names[(turn * 7) % names.length] ?? '';
    const password = `password-of-turn-${turn}`;
    const { name } = credential(namespace, servers[0] ?? '').spec.secretRef;
    const shown = new Promise<number>((resolve) => {
      seen.set(namespace, (text) => {
        if (text.includes(`"${password}"`)) resolve(performance.now());
      });
    });
    const began = performance.now();
    await client.patch(
      secrets,
      { name, namespace: namespaces.credentials },
      { type: 'merge', body: { data: { password: base64(password) } } },
    );
    times.push((await shown) - began);
    seen.delete(namespace);
  }
  await operator.stop();
  stopping.abort();
  await watching;
  return times;
}

interface CredentialFigures {
  readonly namespaces: number;
  /** Milliseconds from a new password to the pull Secret that a watch shows. */
  readonly fanOutP50: number;
  readonly fanOutP99: number;
  /** Secrets in a second, in the median round. */
  readonly bareLoopPerSecond: number;
  readonly operatorPerSecond: number;
  /** Rate of the operator beside that of the bare loop, both from the first write to the last. */
  readonly besideBareLoop: number;
  /** The same, but from the start of the operator, which reads all there is before it writes. */
  readonly fromStartBesideBareLoop: number;
  /** Without that, of each round. */
  readonly rounds: string;
  /** From starting with empty caches to the last Secret. */
  readonly fromStartMs: number;
  readonly writesPerSecret: number;
  readonly writesWhenConverged: number;
}

interface Round {
  readonly loopMs: number;
  readonly filling: Filling;
}

/** Both write the same into the same namespaces, and take turns at going first. */
async function measureRound(client: KubeClient, round: number): Promise<Round> {
  const names = namesOf(`round-${round}`);
  await prepare(client, names);
  const loopFirst = round % 2 === 0;
  let loopMs = loopFirst ? await bareLoop(client, names, 'limit') : Number.NaN;
  const filling = await fill(client);
  if (!loopFirst) loopMs = await bareLoop(client, names, 'limit');
  const sample = await published(client, names.at(-1) ?? '');
  if (Object.keys(sample ?? {}).length !== 5) throw new Error('the pull Secret is not complete');
  return { loopMs, filling };
}

/** So that the next round's operator finds only what is to be filled then. */
async function clear(client: KubeClient, round: number): Promise<void> {
  await inParallel(namesOf(`round-${round}`), workers, async (namespace) => {
    for (const server of servers) {
      const { name } = credential(namespace, server).metadata;
      await client.delete(registryCredentials, { name, namespace });
    }
    await client.delete(secrets, { name: objectNames.pullSecret, namespace });
    await client.delete(secrets, { name: 'limit', namespace });
  });
}

/** Credentials become pull Secrets on a real kube-apiserver of its own. */
async function measureCredentials(): Promise<CredentialFigures> {
  const cluster = await credentialCluster(await ownControlPlane({ components: [] }));
  try {
    const { client } = cluster;
    const made: Round[] = [];
    for (let round = 0; round <= rounds; round += 1) {
      if (round > 0) await clear(client, round - 1);
      const measured = await measureRound(client, round);
      // The first has code compiled, and connections opened.
      if (round > 0) made.push(measured);
    }
    const again = withFaults(client, () => 'none');
    const second = await startOperator(again.client);
    // Every key has been looked at once what is new has been told.
    await prepare(client, [newcomer]);
    const isTold = ({ namespace, subresource }: Write) => namespace === newcomer && subresource === 'status';
    await until(() => again.writes.filter(isTold).length >= servers.length);
    await until(() => second.pending() === 0, 100);
    await second.stop();
    const times = await fanOut(client, namesOf(`round-${rounds}`));
    const writes = made.flatMap(({ filling }) => filling.writes);
    const loopMs = median(made.map((round) => round.loopMs));
    const writingMs = median(made.map(({ filling }) => filling.writingMs));
    const fromStartMs = median(made.map(({ filling }) => filling.fromStartMs));
    return {
      namespaces: count,
      fanOutP50: percentile(times, 0.5),
      fanOutP99: percentile(times, 0.99),
      bareLoopPerSecond: Math.round(count / (loopMs / 1000)),
      operatorPerSecond: Math.round(count / (writingMs / 1000)),
      besideBareLoop: loopMs / writingMs,
      fromStartBesideBareLoop: loopMs / fromStartMs,
      rounds: made.map((round) => rounded(round.loopMs / round.filling.writingMs)).join(', '),
      fromStartMs: Math.round(fromStartMs),
      writesPerSecret: writes.filter(({ plural }) => plural === 'secrets').length / (count * rounds),
      writesWhenConverged: again.writes.filter(({ namespace }) => namespace !== newcomer).length,
    };
  } finally {
    await cluster.remove();
  }
}
