/** Every kind of fault: what it can be done to now, and how. */
import { setTimeout as delay } from 'node:timers/promises';
import { registryPort } from '../../../src/localcluster/shared/addresses.ts';
import type { Components } from '../machine/components.ts';
import { cutNode, cutPod, cutPort, type Undo } from '../machine/network.ts';
import { type Machine, processesOf, turnOff, turnOn } from '../machine/node.ts';
import { signal } from '../machine/signals.ts';
import type { PodProcess } from '../record/guests.ts';
import type { FaultTarget } from '../record/history.ts';

export interface FaultKind {
  /** e.g. `kill runner`. */
  readonly name: string;
  readonly weight: number;
  /** How long it lasts, in milliseconds: from, to. Kills are over at once. */
  readonly lastsMs: readonly [number, number];
  targets(machine: Machine): FaultTarget[];
  /** Resolves with what undoes it. */
  inject(machine: Machine, target: FaultTarget): Promise<Undo>;
}

/** Processes of ours, by what their first process runs. */
const roles: readonly { readonly name: string; readonly command: RegExp; readonly weight: number }[] = [
  { name: 'operator', command: /\/app\/operator\.js/, weight: 3 },
  { name: 'api', command: /\/app\/api\.js/, weight: 2 },
  { name: 'node agent', command: /\/app\/node-agent\.js/, weight: 1 },
  { name: 'runner', command: /\/app\/runner\.js/, weight: 3 },
  // Workers live for seconds: whoever sees one takes the chance.
  { name: 'worker', command: /\/app\/worker\.js/, weight: 20 },
];

const qemu = { name: 'QEMU', command: /^qemu-system-/, weight: 3 };

const none: Undo = () => Promise.resolve();

function processes({ pods }: Machine, command: RegExp): PodProcess[] {
  return pods.scan().filter((process) => command.test(process.command));
}

function targetsOf(machine: Machine, name: string, command: RegExp): FaultTarget[] {
  return processes(machine, command).map(({ pid, podUid, node }) => ({
    what: `${name} ${pid}`,
    node,
    podUid,
    pids: [pid],
  }));
}

async function kill(_machine: Machine, { pids = [] }: FaultTarget): Promise<Undo> {
  for (const pid of pids) signal(pid, 'SIGKILL');
  return Promise.resolve(none);
}

async function pause(_machine: Machine, { pids = [] }: FaultTarget): Promise<Undo> {
  for (const pid of pids) signal(pid, 'SIGSTOP');
  return Promise.resolve(async () => {
    for (const pid of pids) signal(pid, 'SIGCONT');
    await Promise.resolve();
  });
}

function onPods({ name, command, weight }: (typeof roles)[number]): FaultKind[] {
  const targets = (machine: Machine): FaultTarget[] => targetsOf(machine, name, command);
  return [
    { name: `kill ${name}`, weight, lastsMs: [0, 0], targets, inject: kill },
    { name: `pause ${name}`, weight, lastsMs: [2_000, 30_000], targets, inject: pause },
  ];
}

function cutting({ name, command, weight }: (typeof roles)[number]): FaultKind {
  return {
    name: `cut ${name}`,
    weight,
    lastsMs: [3_000, 40_000],
    targets: (machine) => targetsOf(machine, name, command),
    async inject(machine, target) {
      const process = machine.pods.scan().find(({ pid }) => pid === target.pids?.[0]);
      return process === undefined ? none : cutPod(machine, process);
    },
  };
}

/** Parts of Kubernetes and the registry. Nothing starts them again by itself: undoing the kill does. */
function onComponents(match: RegExp, name: string, weight: number): FaultKind[] {
  const targets = ({ components }: Machine): FaultTarget[] =>
    components
      .running()
      .filter((component) => match.test(component.name))
      .map((component) => ({
        what: component.name,
        node: component.node,
        pids: [component.pid],
      }));
  return [
    { name: `pause ${name}`, weight, lastsMs: [2_000, 25_000], targets, inject: pause },
    {
      name: `kill ${name}`,
      weight,
      lastsMs: [0, 20_000],
      targets,
      async inject({ components }, target) {
        for (const pid of target.pids ?? []) signal(pid, 'SIGKILL');
        await untilGone(components, target.what);
        return async () => Promise.resolve(components.start(target.what));
      },
    },
  ];
}

async function untilGone(components: Components, name: string): Promise<void> {
  while (components.running().some((component) => component.name === name)) await delay(20);
}

function cuttingPort(name: string, port: number, weight: number): FaultKind {
  return {
    name: `cut ${name}`,
    weight,
    lastsMs: [3_000, 25_000],
    targets: () => [{ what: name }],
    inject: (machine) => cutPort(machine, port),
  };
}

function nodesOf({ components }: Machine): FaultTarget[] {
  const nodes = components.names.flatMap((name) => /^(node\d+) kubelet$/.exec(name)?.[1] ?? []);
  return nodes.map((node) => ({ what: node, node }));
}

const onNodes: FaultKind[] = [
  {
    name: 'reboot node',
    weight: 2,
    lastsMs: [2_000, 30_000],
    targets: nodesOf,
    async inject(machine, { what }) {
      await turnOff(machine, what);
      return () => turnOn(machine, what);
    },
  },
  {
    name: 'pause node',
    weight: 2,
    lastsMs: [2_000, 30_000],
    targets: nodesOf,
    async inject(machine, target) {
      return pause(machine, { ...target, pids: processesOf(machine, target.what) });
    },
  },
  {
    name: 'cut node',
    weight: 2,
    lastsMs: [3_000, 60_000],
    targets: nodesOf,
    inject: (machine, { what }) => cutNode(machine, what),
  },
];

export const catalogue: readonly FaultKind[] = [
  ...[...roles, qemu].flatMap(onPods),
  ...roles.map(cutting),
  ...onComponents(/^etcd$/, 'etcd', 1),
  ...onComponents(/^kube-apiserver$/, 'kube-apiserver', 1),
  ...onComponents(/^kube-(scheduler|controller-manager)$/, 'scheduler or controller-manager', 1),
  ...onComponents(/^registry$/, 'registry', 2),
  ...onComponents(/ kubelet$/, 'kubelet', 2),
  ...onComponents(/ containerd$/, 'containerd', 2),
  cuttingPort('kube-apiserver', 6443, 1),
  cuttingPort('registry', registryPort, 1),
  ...onNodes,
];
