import { run } from '../host/command.ts';
import type { Tools } from '../host/tools.ts';
import type { Kubectl } from '../shared/kubectl.ts';

/** What of a cluster Helm needs. */
export interface HelmTarget {
  readonly tools: Pick<Tools, 'path'>;
  readonly kubeconfig: string;
  readonly kubectl: Kubectl;
  readonly signal: AbortSignal;
}

export interface HelmRelease {
  readonly name: string;
  readonly namespace: string;
  /** Folder of the chart. */
  readonly chart: string;
  /** File of its values. */
  readonly values: string;
}

/**
 * Installs or upgrades a release, and waits for its hooks. To be called by one at a time: an operation that is under way by what the release says
 * is taken for one that was interrupted.
 */
export async function upgradeRelease(target: HelmTarget, release: HelmRelease): Promise<void> {
  const { tools, kubeconfig, signal } = target;
  const { name, namespace, chart, values } = release;
  await forgetInterrupted(target, release);
  const where = [`--kubeconfig=${kubeconfig}`, `--namespace=${namespace}`];
  const how = ['upgrade', '--install', name, chart, ...where, `--values=${values}`, '--wait=hookOnly'];
  await run(tools.path('helm'), how, { signal });
}

/** A Helm that was killed, as by Ctrl-C here, has left its release pending, and every later one refuses to touch it. */
async function forgetInterrupted(
  { kubectl }: HelmTarget,
  { name, namespace }: Pick<HelmRelease, 'name' | 'namespace'>,
): Promise<void> {
  const pending = 'status in (pending-install,pending-upgrade,pending-rollback)';
  await kubectl('delete', 'secrets', '-n', namespace, '-l', `owner=helm,name=${name},${pending}`);
}
