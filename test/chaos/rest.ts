/** After the faults: waiting until everything has come to rest, and looking at what guests still have on their disks. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Vm } from '../../src/api/vm.ts';
import { namespaces } from '../../src/api/meta.ts';
import { notAtRest, type Restless } from './judges/atrest.ts';
import type { History } from './record/history.ts';
import type { Recorder } from './record/recorder.ts';
import type { Markers } from './workload/markers.ts';
import type { Ssh } from './workload/workload.ts';

/** Longest pause between two tries of an image's work, and what the try may take. */
export const restMs = 8 * 60_000;

/** What has not come to rest in time; empty when all has. */
export async function untilAtRest(
  recorder: Recorder,
  signal: AbortSignal,
  note: (text: string) => void,
): Promise<Restless[]> {
  const began = Date.now();
  for (let told = 0; ; told++) {
    const left = notAtRest({
      nodes: recorder.current('nodes'),
      vms: recorder.current('vms'),
      images: recorder.current('images'),
      systemPods: [namespaces.system, namespaces.node].flatMap((each) => recorder.current('pods', each)),
    });
    const isOver = Date.now() - began > restMs || signal.aborted;
    if (left.length === 0 || isOver) return left;
    if (told % 30 === 29) note(`not at rest yet: ${left.slice(0, 3).map(inWords).join('; ')}`);
    await delay(1_000, undefined, { signal }).catch(() => undefined);
  }
}

function inWords({ object, what }: Restless): string {
  return `${object}: ${what}`;
}

/** Every guest that runs is asked for what it was made to write. */
export async function readDisks(
  recorder: Recorder,
  markers: Markers,
  ssh: Ssh,
  history: History,
): Promise<void> {
  for (const vm of recorder.current('vms')) {
    const expected = markers.of(vm.metadata.uid ?? '', vm.status?.runner?.podUid);
    if (vm.status?.powerState !== 'Running' || expected.length === 0) continue;
    const missing = await missingOn(vm, expected, ssh);
    const { namespace, name, uid } = vm.metadata;
    history.disks.push({ at: Date.now(), namespace, vm: name, vmUid: uid, missing });
  }
}

const tries = 4;

async function missingOn({ status }: Vm, expected: readonly string[], ssh: Ssh): Promise<string[]> {
  const address = { ip: status?.ip ?? '', port: status?.ports?.ssh ?? 0 };
  for (let attempt = 1; ; attempt++)
    try {
      const found = (await ssh(address, 'ls')).split('\n');
      return expected.filter((marker) => !found.includes(marker));
    } catch (error) {
      if (attempt < tries) continue;
      return [
        `(its guest did not answer: ${error instanceof Error ? error.message.slice(0, 200) : String(error)})`,
      ];
    }
}
