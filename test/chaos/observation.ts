/** Everything that watches a cluster in a chaos run, from the start to the end, and what it has seen. */
import { join } from 'node:path';
import type { Places } from '../../src/localcluster/shared/state.ts';
import { keepComponents } from './faults/injector.ts';
import { adminEndpoint, type Endpoint } from './https.ts';
import { findComponents } from './machine/components.ts';
import type { Machine } from './machine/node.ts';
import type { Canaries } from './record/canaries.ts';
import { podProcesses } from './record/guests.ts';
import { emptyHistory, type History } from './record/history.ts';
import type { RunLog } from './record/log.ts';
import { keepLogs, leaksInLogs } from './record/logs.ts';
import { type Recorder, startRecorder } from './record/recorder.ts';
import { SavedDisks } from './record/saved.ts';
import { scanGuests, scanStore } from './record/scanning.ts';
import { type StoreFolder, storeFolder } from './record/store.ts';
import { Markers } from './workload/markers.ts';

export interface Observation {
  readonly history: History;
  readonly canaries: Canaries;
  readonly markers: Markers;
  readonly machine: Machine;
  readonly kube: Endpoint;
  readonly store: StoreFolder;
  /** Blobs that the registry had before. */
  readonly before: ReadonlySet<string>;
  readonly recorder: Recorder;
  readonly saved: SavedDisks;
  /** Prints a line, and keeps it. */
  note(text: string): void;
  /** Resolves when everything that was seen stands in the history; may be called again. */
  stop(): Promise<void>;
}

export async function observe(places: Places, log: RunLog): Promise<Observation> {
  const history = emptyHistory();
  const canaries: Canaries = new Map();
  const markers = new Markers();
  const store = storeFolder(places.state);
  const kube = await adminEndpoint(places.kubeconfig);
  const pods = await podProcesses(places);
  const machine = { places, pods, components: await findComponents(places) };
  const note = (text: string): void => {
    console.log(text);
    log.write('notes', { at: Date.now(), text });
  };
  const before = await store.blobs();
  const end = new AbortController();
  const recorder = startRecorder({ endpoint: kube, history, log, canaries });
  const saved = new SavedDisks({ recorder, history, markers, store, log });
  const logs = join(log.folder, 'logs');
  const scans = [
    scanGuests(pods, history, log, end.signal),
    scanStore(store, history, log, end.signal),
    keepLogs(places, logs, end.signal),
    keepComponents(machine, history, note, end.signal),
  ];
  const stop = async (): Promise<void> => {
    end.abort();
    await Promise.all([recorder.stop(), saved.done(), ...scans]);
    history.leaks.push(...(await leaksInLogs(logs, canaries)));
  };
  let stopped: Promise<void> | undefined;
  return {
    history,
    canaries,
    markers,
    machine,
    kube,
    store,
    before,
    recorder,
    saved,
    note,
    stop: () => (stopped ??= stop()),
  };
}
