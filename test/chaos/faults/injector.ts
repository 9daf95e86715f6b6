/** Injects faults at random, a few at once, and undoes each. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Machine } from '../machine/node.ts';
import type { Random } from '../random.ts';
import type { Fault, FaultTarget, History } from '../record/history.ts';
import type { RunLog } from '../record/log.ts';
import { catalogue, type FaultKind } from './catalogue.ts';

export interface InjectorOptions {
  readonly machine: Machine;
  readonly random: Random;
  readonly history: History;
  readonly log: RunLog;
}

/** So many at once: more, and nothing would ever get done between them. */
const mostAtOnce = 2;
const pauseMs = [2_000, 9_000] as const;

interface Chosen {
  readonly kind: FaultKind;
  readonly target: FaultTarget;
}

export class Injector {
  readonly #options: InjectorOptions;
  readonly #active = new Map<Fault, Promise<void>>();
  readonly #end = new AbortController();

  constructor(options: InjectorOptions) {
    this.#options = options;
  }

  get active(): number {
    return this.#active.size;
  }

  /** Goes on until `stop`. */
  async run(): Promise<void> {
    const { random } = this.#options;
    while (!this.#end.signal.aborted) {
      await this.#pause(random.between(...pauseMs));
      if (this.#end.signal.aborted || this.#active.size >= mostAtOnce) continue;
      const chosen = this.#choose();
      if (chosen !== undefined) this.#begin(chosen);
    }
  }

  /** Undoes what is under way and injects nothing more. */
  async stop(): Promise<void> {
    this.#end.abort();
    await Promise.all(this.#active.values());
  }

  #choose(): Chosen | undefined {
    const { machine, random } = this.#options;
    const possible = catalogue.flatMap((kind) => {
      const targets = kind.targets(machine).filter((target) => this.#isFree(target));
      return targets.length === 0 ? [] : [{ weight: kind.weight, value: { kind, targets } }];
    });
    if (possible.length === 0) return undefined;
    const { kind, targets } = random.weighted(possible);
    return { kind, target: random.pick(targets) };
  }

  #isFree(target: FaultTarget): boolean {
    return [...this.#active.keys()].every(({ target: other }) => !areEntangled(target, other));
  }

  #begin({ kind, target }: Chosen): void {
    const { random, history } = this.#options;
    const fault: Fault = { id: history.faults.length + 1, kind: kind.name, target, at: Date.now() };
    history.faults.push(fault);
    const lastsMs = random.between(...kind.lastsMs);
    const done = this.#carryOut(kind, fault, lastsMs).finally(() => this.#active.delete(fault));
    this.#active.set(fault, done);
  }

  async #carryOut(kind: FaultKind, fault: Fault, lastsMs: number): Promise<void> {
    const { machine, log } = this.#options;
    log.write('faults', { begin: fault, lastsMs });
    try {
      const undo = await kind.inject(machine, fault.target);
      await this.#pause(lastsMs);
      await undo();
    } catch (error) {
      fault.problem = error instanceof Error ? error.message : String(error);
    }
    fault.until = Date.now();
    log.write('faults', { end: fault });
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#end.signal }).catch(() => undefined);
  }
}

/** The same thing, or a whole node and something on it: undoing one would undo the other. */
function areEntangled(one: FaultTarget, other: FaultTarget): boolean {
  if (one.what === other.what) return true;
  return (
    one.node !== undefined && one.node === other.node && (one.what === one.node || other.what === other.node)
  );
}

/** Starts parts of Kubernetes that have ended without a fault of ours; a finding for whoever reads the log. */
export async function keepComponents(
  { components }: Machine,
  history: History,
  note: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const missedBefore = new Set<string>();
  while (!signal.aborted) {
    await delay(3_000, undefined, { signal }).catch(() => undefined);
    const running = new Set(components.running().map(({ name }) => name));
    const isFaulty = (name: string): boolean =>
      history.faults.some(
        ({ target, until }) =>
          until === undefined && (target.what === name || (target.node ?? ' ') === name.split(' ')[0]),
      );
    for (const name of components.names) {
      const isMissing = !running.has(name) && !components.isStarted(name) && !isFaulty(name);
      // Twice in a row: one that was just started again may not be what it will be yet.
      if (isMissing && missedBefore.has(name)) {
        note(`${name} had ended by itself and was started again`);
        components.start(name);
      }
      if (isMissing && !missedBefore.delete(name)) missedBefore.add(name);
      if (!isMissing) missedBefore.delete(name);
    }
  }
}
