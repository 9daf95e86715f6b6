/** The cluster that is there already when another `up` comes. */
import { optionsOf } from '../addons/addons.ts';
import { lossOf } from '../shared/addresses.ts';
import {
  type Addons,
  type Places,
  type Report,
  endedComponents,
  ensureSettings,
  mergedAddons,
  noAddons,
  readReport,
} from '../shared/state.ts';
import { terminate } from './supervised.ts';

export interface Asked {
  readonly places: Places;
  readonly nodes?: number;
  readonly addons?: Partial<Addons>;
  progress(text: string): void;
}

/**
 * The report of the cluster if it runs. Says what of it is not as asked, and notes that for its next start. One that is going
 * down is waited for, and does not run then. For who holds the lock of the cluster: one that is starting has lost whoever
 * started it, and goes down too.
 */
export async function findRunning({
  places,
  nodes,
  addons = {},
  progress,
}: Asked): Promise<Report | undefined> {
  const report = await readReport(places);
  if (report === undefined) return undefined;
  if (report.phase !== 'running') {
    progress('the cluster is going down; waiting for its end');
    await terminate(report.pid, report.startTime, 'in order');
    return undefined;
  }
  const ended = endedComponents(report);
  if (ended.length > 0) progress(`the cluster runs without ${ended.join(', ')}, which ended`);
  const missing = missingAddons(addons, report.addons ?? noAddons);
  if (nodes !== undefined && nodes !== report.nodes) progress(changeOfNodes(report.nodes, nodes));
  if (missing.length > 0)
    progress(`the cluster runs without ${missing.join(', ')}; that changes after a down`);
  if (nodes !== undefined || missing.length > 0) await ensureSettings(places, nodes, { addons });
  return report;
}

function changeOfNodes(present: number, asked: number): string {
  const loss = lossOf(present, asked);
  const how = loss === undefined ? '' : `: ${loss}`;
  return `the cluster has ${present} ${present === 1 ? 'node' : 'nodes'}; that changes after a down${how}`;
}

/** As `svc3 dev up` names them. */
function missingAddons(asked: Partial<Addons>, present: Addons): string[] {
  return optionsOf(mergedAddons(undefined, asked)).filter((option) => !optionsOf(present).includes(option));
}
