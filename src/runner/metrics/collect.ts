import type { Supervisor } from '../supervisor.ts';
import type { AgentFigures, AgentReader } from './agentfigures.ts';
import { readCpuTimes } from './cpu.ts';
import { type DiskCounters, readDiskCounters } from './disks.ts';
import { type AvailableMemory, readAvailable } from './memory.ts';
import { type NetworkCounters, readTraffic } from './network.ts';
import type { Family, Sample } from './text.ts';

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
    ...settingsOf(supervisor),
    counter('svc3_vm_cpu_seconds_total', 'Time of all virtual CPUs on a processor.', one(cpu?.used)),
    counter(
      'svc3_vm_cpu_steal_seconds_total',
      'Time that virtual CPUs were ready to run and waited for a processor of the node.',
      one(cpu?.waited),
    ),
    ...diskFamilies(disks ?? new Map<string, DiskCounters>()),
    ...networkFamilies(readTraffic()),
    ...memoryFamilies(memory),
    // One that is paused answers nothing.
    ...agentFamilies(
      machine && isRunning ? agent.figures(machine) : { agentUp: false, fileSystem: undefined },
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

function settingsOf(supervisor: Supervisor): Family[] {
  const { architecture, accelerator, cpu, memoryMiB } = supervisor.spec();
  const { powerState, guestReady = false, restarts } = supervisor.status.current;
  const phases = [...supervisor.phases.seconds()].map(([phase, value]) => ({ labels: { phase }, value }));
  return [
    gauge('svc3_vm_info', 'What the VM is.', [{ labels: { architecture, accelerator }, value: 1 }]),
    gauge('svc3_vm_running', '1 while the guest runs.', [{ value: powerState === 'Running' ? 1 : 0 }]),
    gauge('svc3_vm_guest_ready', '1 while the guest answers what spec.readiness asks.', [
      { value: guestReady ? 1 : 0 },
    ]),
    gauge('svc3_vm_restarts', 'Crashes since the last ten quiet minutes.', [{ value: restarts }]),
    gauge('svc3_vm_vcpus', 'Virtual CPUs.', [{ value: cpu }]),
    gauge('svc3_vm_memory_bytes', 'Memory of the guest.', [{ value: memoryMiB * 2 ** 20 }]),
    gauge(
      'svc3_vm_start_phase_seconds',
      'How long the phases of the last start took: disk, machine (QEMU), guest (until it is ready).',
      phases,
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
      one(said?.fileSystem?.size),
    ),
    gauge(
      'svc3_vm_filesystem_used_bytes',
      "What is used of the guest's root file system, as its agent says.",
      one(said?.fileSystem?.used),
    ),
    gauge(
      'svc3_vm_filesystem_timestamp_seconds',
      'When the agent said it, since 1970.',
      one(said?.fileSystem?.saidAt),
    ),
  ];
}
