/** The add-ons of a running cluster: DNS and resource metrics run as pods, network policies as a component of the supervisor. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { Svc3Error } from '../../errors.ts';
import { nodeAddresses } from '../shared/addresses.ts';
import { ctrOf } from '../node/preload.ts';
import type { Kubectl } from '../shared/kubectl.ts';
import { untilRolledOut } from '../shared/rollout.ts';
import { type Addons, type Places, addonNames, readReport } from '../shared/state.ts';
import type { Progress } from '../host/progress.ts';
import type { Tools } from '../host/tools.ts';
import type { ToolGroupName } from '../host/toolgroups.ts';
import { archiveOf, createImage } from '../images/oci.ts';
import { architectureOfHost } from '../images/pause.ts';
import { systemNamespace } from './deployment.ts';
import { dnsObjects } from './dns.ts';
import { metricsObjects } from './metrics.ts';

const pods = {
  dns: { binary: 'coredns', objects: dnsObjects },
  metrics: { binary: 'metrics-server', objects: metricsObjects },
} as const;

/** The tools that add-ons are made of; network policies need none. */
export function addonTools(addons: Addons): readonly ToolGroupName[] {
  return podAddons(addons);
}

/** As `svc3 dev up` names them. */
export function optionsOf(addons: Addons): string[] {
  const options = { dns: '--dns', metrics: '--metrics', networkPolicies: '--network-policies' };
  return addonNames.filter((name) => addons[name]).map((name) => options[name]);
}

function podAddons(addons: Addons): (keyof typeof pods)[] {
  return (Object.keys(pods) as (keyof typeof pods)[]).filter((name) => addons[name]);
}

export interface AddonOptions {
  readonly places: Places;
  readonly tools: Tools;
  readonly kubectl: Kubectl;
  readonly signal: AbortSignal;
  readonly progress: Progress;
}

/** Brings the add-ons that are pods into the cluster and waits until they serve. */
export async function ensureAddons(
  addons: Addons,
  { places, tools, kubectl, signal, progress }: AddonOptions,
): Promise<void> {
  const wanted = podAddons(addons);
  if (wanted.length === 0) return;
  progress(`starting ${wanted.map((name) => pods[name].binary).join(' and ')}`);
  for (const name of wanted) {
    const { binary, objects } = pods[name];
    await kubectl.apply(...objects(await bring(binary, places, tools)));
  }
  const workloads = wanted.map((name) => ({
    kind: 'deployment' as const,
    namespace: systemNamespace,
    name: pods[name].binary,
  }));
  await untilRolledOut(kubectl, workloads, signal);
}

/** Imports an image with nothing but the program into the first node, where add-ons run; returns its reference. */
async function bring(binary: string, places: Places, tools: Tools): Promise<string> {
  const path = tools.path(binary);
  const reference = `localhost/svc3/${binary}:${basename(dirname(path))}`;
  const report = await readReport(places);
  // Nodes are reported in the order in which they came up.
  const node = report?.machines.find(({ name }) => name === nodeAddresses(1).name);
  if (report?.sandboxPid === undefined || node === undefined)
    throw new Svc3Error('InternalError', 'the cluster ended');
  const ctr = ctrOf(tools, report.sandboxPid, node.pid);
  if ((await ctr('ls', '-q')).split('\n').includes(reference)) return reference;
  const content = await readFile(path);
  const image = await createImage({
    files: [{ name: binary, content, mode: 0o755 }],
    architecture: architectureOfHost(),
    entrypoint: [`/${binary}`],
  });
  const archive = join(places.state, 'run', `${binary}.tar`);
  try {
    await writeFile(archive, await archiveOf(image, reference));
    await ctr('import', archive);
  } finally {
    await rm(archive, { force: true });
  }
  return reference;
}
