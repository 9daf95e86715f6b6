import type { RunnerSpec } from '../../api/runner.ts';
import type { Supervisor } from '../supervisor.ts';
import type { AgentFigures, AgentReader } from './agentfigures.ts';
import { readCpuTimes } from './cpu.ts';
import { type DiskCounters, readDiskCounters } from './disks.ts';
import { type AvailableMemory, readAvailable } from './memory.ts';
import { type NetworkCounters, readTraffic } from './network.ts';
import { podPhases } from '../startphases.ts';
import { readProc } from './proc.ts';
import type { Family, Sample } from './text.ts';
import { parseResident } from './usage.ts';

/** What does not answer in this time is left out: a scrape has some seconds. In milliseconds. */
const answerWithinMs = 2_000;

/** The metrics of a VM now, at most 60 series. What cannot be found out is left out. */
export async function collectMetrics(supervisor: Supervisor, agent: AgentReader): Promise<Family[]> {
  const machine = supervisor.running()?.machine;
  const [cpu, disks, memory] = await Promise.all([
    machine && readCpuTimes(machine.qmp, machine.pid, answerWithinMs).catch(() => undefined),
    machine && readDiskCounters(machine.qmp, answerWithinMs).catch(() => undefined),
    machine && readAvailable(machine, answerWithinMs).catch(() => undefined),
  ]);
  const isRunning = supervisor.status.current.powerState === 'Running';
  return [
    ...settingFamilies(supervisor),
    counter('svc3_vm_cpu_seconds_total', 'Time of all virtual CPUs on a processor.', one(cpu?.used)),
    counter(
      'svc3_vm_cpu_steal_seconds_total',
      'Time that virtual CPUs were ready to run and waited for a processor of the node.',
      one(cpu?.waited),
    ),
    ...diskFamilies(disks ?? new Map<string, DiskCounters>()),
    ...networkFamilies(readTraffic()),
    gauge(
      'svc3_vm_memory_resident_bytes',
      'Memory of the node that QEMU holds, for the guest and for itself.',
      one(machine && parseResident(readProc(`/proc/${machine.pid}/status`) ?? '')),
    ),
    ...memoryFamilies(memory),
    // One that is paused answers nothing.
    ...agentFamilies(
      machine && isRunning ? agent.figures(machine) : { agentUp: false, fileSystems: undefined },
    ),
  ];
}

function one(value: number | undefined): Sample[] {
  return value === undefined ? [] : [{ value }];
}

function gauge(name: string, help: string, samples: readonly Sample[]): Family {
  return { name, type: 'gauge', help, samples };
}

function counter(name: string, help: string, samples: readonly Sample[]): Family {
  return { name, type: 'counter', help, samples };
}

/** What the VM is, has and was started as. */
export function settingFamilies(supervisor: Supervisor): Family[] {
  const spec = supervisor.spec();
  const { architecture, accelerator: requested, cpu, memoryMiB } = spec;
  const accelerator = supervisor.running()?.input.accelerator ?? requested;
  const { powerState, guestReady = false, restarts } = supervisor.status.current;
  return [
    gauge('svc3_vm_info', 'What the VM is.', [{ labels: { architecture, accelerator }, value: 1 }]),
    gauge('svc3_vm_running', '1 while the guest runs.', [{ value: powerState === 'Running' ? 1 : 0 }]),
    gauge('svc3_vm_guest_ready', '1 while the guest answers what spec.readiness asks.', [
      { value: guestReady ? 1 : 0 },
    ]),
    gauge(
      'svc3_vm_restarts',
      'Crashes in this pod between which no ten minutes were quiet, until the VM is started, restarted or reverted.',
      [{ value: restarts }],
    ),
    gauge('svc3_vm_vcpus', 'Virtual CPUs.', [{ value: cpu }]),
    gauge('svc3_vm_memory_bytes', 'Memory of the guest.', [{ value: memoryMiB * 2 ** 20 }]),
    ...startFamilies(supervisor, spec),
  ];
}

/** Of the last start. What went before the runner is of the first start in the pod only. */
function startFamilies({ phases, status }: Supervisor, spec: RunnerSpec): Family[] {
  const seconds = phases.seconds();
  const before = phases.first() === undefined ? [] : podPhases(spec, performance.timeOrigin);
  const booted = status.current.warmStart?.fromMemory === true ? 'warm' : 'cold';
  const start = phases.isClaimed() ? 'claimed' : booted;
  return [
    gauge(
      'svc3_vm_start_info',
      'How the guest was started last: it booted (cold), went on from a memory (warm), or waited in a pool (claimed).',
      // Before there is a QEMU, what is known is of the start before.
      seconds.has('guest') ? [{ labels: { start }, value: 1 }] : [],
    ),
    gauge(
      'svc3_vm_start_phase_seconds',
      'How long the phases of the last start took: placed (until there was a pod), pulled (until its runner ran), disk, machine (QEMU), guest (until it is ready).',
      [...before, ...seconds].map(([phase, value]) => ({ labels: { phase }, value })),
    ),
  ];
}

const diskMetrics: readonly (readonly [keyof DiskCounters, string, string])[] = [
  ['readBytes', 'svc3_vm_disk_read_bytes_total', 'Bytes that the guest has read.'],
  ['writtenBytes', 'svc3_vm_disk_written_bytes_total', 'Bytes that the guest has written.'],
  ['reads', 'svc3_vm_disk_reads_total', 'Reads that have ended.'],
  ['writes', 'svc3_vm_disk_writes_total', 'Writes that have ended.'],
  ['readSeconds', 'svc3_vm_disk_read_seconds_total', 'Time that reads took, together.'],
  ['writeSeconds', 'svc3_vm_disk_write_seconds_total', 'Time that writes took, together.'],
];

function diskFamilies(disks: ReadonlyMap<string, DiskCounters>): Family[] {
  return diskMetrics.map(([key, name, help]) =>
    counter(
      name,
      help,
      [...disks].map(([disk, counters]) => ({ labels: { disk }, value: counters[key] })),
    ),
  );
}

function networkFamilies(network: NetworkCounters | undefined): Family[] {
  if (network === undefined) return [];
  const { received, sent } = network;
  return [
    counter('svc3_vm_network_receive_bytes_total', 'Bytes that came to the pod.', [
      { value: received.bytes },
    ]),
    counter('svc3_vm_network_receive_packets_total', 'Packets that came to the pod.', [
      { value: received.packets },
    ]),
    counter('svc3_vm_network_receive_drops_total', 'Packets to the pod that were dropped.', [
      { value: received.drops },
    ]),
    counter('svc3_vm_network_transmit_bytes_total', 'Bytes that the pod has sent.', [{ value: sent.bytes }]),
    counter('svc3_vm_network_transmit_packets_total', 'Packets that the pod has sent.', [
      { value: sent.packets },
    ]),
    counter('svc3_vm_network_transmit_drops_total', 'Packets of the pod that were dropped.', [
      { value: sent.drops },
    ]),
  ];
}

function memoryFamilies(memory: AvailableMemory | undefined): Family[] {
  return [
    gauge(
      'svc3_vm_memory_available_bytes',
      'Memory that programs of the guest can still have, as its balloon driver says.',
      one(memory?.bytes),
    ),
    gauge(
      'svc3_vm_memory_available_timestamp_seconds',
      'When the balloon driver said it, since 1970.',
      one(memory?.saidAt),
    ),
  ];
}

function agentFamilies(said: AgentFigures | undefined): Family[] {
  return [
    gauge(
      'svc3_vm_guest_agent_up',
      '1 while the guest runs and its agent answered when it was last asked.',
      one(said && Number(said.agentUp)),
    ),
    gauge(
      'svc3_vm_filesystem_size_bytes',
      "Size of the guest's root file system, as its agent says.",
      one(said?.fileSystems?.root?.size),
    ),
    gauge(
      'svc3_vm_filesystem_used_bytes',
      "What is used of the guest's root file system, as its agent says.",
      one(said?.fileSystems?.root?.used),
    ),
    gauge(
      'svc3_vm_data_filesystem_size_bytes',
      'Size of the fullest file system on a data disk, as the agent of the guest says.',
      one(said?.fileSystems?.data?.size),
    ),
    gauge(
      'svc3_vm_data_filesystem_used_bytes',
      'What is used of the fullest file system on a data disk, as the agent of the guest says.',
      one(said?.fileSystems?.data?.used),
    ),
    gauge(
      'svc3_vm_filesystem_timestamp_seconds',
      'When the agent said it, since 1970.',
      one(said?.fileSystems?.saidAt),
    ),
  ];
}
