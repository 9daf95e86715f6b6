import { rm } from 'node:fs/promises';
import { createClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { type OwnControlPlane, ownControlPlane, temporaryFolder } from './controlplane.ts';
import { installDefinitions } from './definitions.ts';
import { type Etcd, type EtcdEntry, etcdOf } from './etcd.ts';
import { inParallel } from './parallel.ts';

/** What a test may do with a control plane that the next file of its worker gets. */
export interface EmptyControlPlane extends Pick<
  OwnControlPlane,
  'server' | 'caPem' | 'kubeconfigPath' | 'adminToken' | 'pki'
> {
  /** A folder for the test's own files. */
  readonly dir: string;
  /** Gives it back; nothing may use it any more. */
  remove(): Promise<void>;
}

interface Kept {
  readonly plane: OwnControlPlane;
  /** What was in etcd when the definitions were served. */
  readonly beginning: ReadonlyMap<string, EtcdEntry>;
}

/** Left by the test file before, in this worker. More than one would take processors from those that work. */
let idle: Kept | undefined;

/**
 * A control plane with the CRDs of this source tree and nothing else, for one test file. To start one costs ten seconds of processor time, so that
 * of the file before is emptied instead: whoever kills, restarts or audits a control plane, or gives it flags, takes `ownControlPlane`.
 */
export async function emptyControlPlane(): Promise<EmptyControlPlane> {
  const kept = idle ?? (await newPlane());
  idle = undefined;
  const { plane } = kept;
  const dir = temporaryFolder();
  const { server, caPem, kubeconfigPath, adminToken, pki } = plane;
  return {
    server,
    caPem,
    kubeconfigPath,
    adminToken,
    pki,
    dir,
    async remove() {
      await rm(dir, { recursive: true, force: true });
      if (idle === undefined) await empty(kept);
      if (idle !== undefined) return plane.remove();
      idle = kept;
    },
  };
}

async function newPlane(): Promise<Kept> {
  const plane = await ownControlPlane();
  const client = createClient(await loadKubeconfig(plane.kubeconfigPath));
  await installDefinitions(client);
  await client.close();
  const etcd = etcdOf(plane);
  const beginning = new Map((await etcd.list('/registry/')).map((entry) => [entry.key, entry]));
  etcd.close();
  return { plane, beginning };
}

/**
 * Makes etcd hold what it held at the beginning. A controller that was about to write makes a second round necessary, so it ends
 * with one that has found nothing to do.
 */
async function empty({ plane, beginning }: Kept): Promise<void> {
  const etcd = etcdOf(plane);
  const mended = new Map<string, number>();
  try {
    while ((await emptyOnce(etcd, beginning, mended)) > 0);
  } finally {
    etcd.close();
  }
}

/** What the processes of the control plane keep for themselves: renewed leases, accounts that they sign in with, APIs that they serve. */
const isOwn = ({ key, value }: EtcdEntry): boolean =>
  /^[/]registry[/](leases|serviceaccounts)[/]kube-system[/]|^[/]registry[/]masterleases[/]/.test(key) ||
  (key.startsWith('/registry/apiregistration.k8s.io/') && value.includes('automanaged'));

/** etcd refuses requests (`too many requests`) while it has applied 5,000 fewer of them than it has taken, and a test may leave more objects than that. */
const writesAtOnce = 100;

/** How often something is set right before it counts as the control plane's own. */
const attempts = 3;

/** Says how much was not as at the beginning. */
async function emptyOnce(
  etcd: Etcd,
  beginning: ReadonlyMap<string, EtcdEntry>,
  mended: Map<string, number>,
): Promise<number> {
  const found = new Map((await etcd.list('/registry/')).map((entry) => [entry.key, entry]));
  const added = [...found.values()].filter(({ key }) => !beginning.has(key));
  const changed = [...beginning.values()].filter(
    ({ key, value }) => found.get(key)?.value.equals(value) !== true,
  );
  const wrong = [...added, ...changed].filter(
    (entry) => !isOwn(entry) && (mended.get(entry.key) ?? 0) < attempts,
  );
  for (const { key } of wrong) mended.set(key, (mended.get(key) ?? 0) + 1);
  await inParallel(wrong, writesAtOnce, ({ key }) => {
    const before = beginning.get(key);
    return before === undefined ? etcd.delete(key) : etcd.put(key, before.value);
  });
  return wrong.length;
}
