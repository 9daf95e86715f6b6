import type { Event } from '../../src/api/core.ts';
import { events, typeMeta, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { RootClient } from '../../src/kube/client.ts';
import type { Created } from '../../src/api/object.ts';
import { benchVm, namespace } from './simulated.ts';

/** What svc3 wrote, per VM: how many of each kind, by the audit log, and a status as it left it. */
export interface Written {
  readonly perVm: Readonly<Record<string, number>>;
  readonly status: Vm['status'];
}

export interface FurtherWrites {
  /** Makes those of one VM, one after the other; fractions add up. */
  make(): Promise<void>;
  made(): number;
  /** Names of the VMs that it has made and that nobody looks after. */
  readonly vms: readonly string[];
}

/**
 * As many writes as svc3 makes, of the same kinds and sizes: its server-side applies of status and its Events. For each pod
 * that svc3 creates a VM is created: in its round that one is there too, and it is the lesser of the two.
 */
export function furtherWrites(client: RootClient, prefix: string, written: Written): FurtherWrites {
  const owed = new Map<string, number>();
  const names: string[] = [];
  let begun = 0;
  let made = 0;
  let turn = 0;
  async function one(kind: string): Promise<void> {
    const number = begun++;
    if (kind === 'create pods') {
      const name = `${prefix}-${number}`;
      await client.create(vms, benchVm(name));
      names.push(name);
    } else if (kind === 'patch vms/status' && names.length > 0) {
      const name = names[turn++ % names.length] ?? '';
      const object = { ...typeMeta(vms), metadata: { name, namespace }, status: written.status } as Vm;
      await client.apply(vms, object, { subresource: 'status' });
    } else await client.create(events, anEvent(`${prefix}-${number}`));
  }
  return {
    async make() {
      for (const [kind, amount] of Object.entries(written.perVm)) {
        const left = (owed.get(kind) ?? 0) + amount;
        const due = Math.floor(left + 1e-6);
        owed.set(kind, left - due);
        for (let i = 0; i < due; i++) {
          await one(kind);
          made += 1;
        }
      }
    },
    made: () => made,
    vms: names,
  };
}

function anEvent(about: string): Created<Event> {
  return {
    metadata: { generateName: 'load-', namespace },
    eventTime: `${new Date().toISOString().slice(0, -1)}000Z`,
    reportingController: 'bench',
    reportingInstance: 'bench',
    type: 'Normal',
    reason: 'Load',
    action: 'Load',
    note: `write about ${about}`,
    regarding: { ...typeMeta(vms), name: about, namespace },
  };
}
