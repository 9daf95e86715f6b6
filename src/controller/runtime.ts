import type { Logger } from 'pino';
import type { EventRecorder, KubeClient } from '../kube/types.ts';
import type { Controller, ControllerMetrics, Gate } from './controller.ts';
import type { Informers } from './informers.ts';

/** What a folder's `create…Controller(runtime)` gets: everything a controller needs of its process. */
export interface Runtime<Settings = unknown> {
  /** Writes are refused while this process does not lead. */
  readonly client: KubeClient;
  readonly informers: Informers;
  readonly recorder: EventRecorder;
  readonly log: Logger;
  readonly metrics: { readonly controllers: ControllerMetrics };
  readonly settings: Settings;
  readonly gate: Gate;
}

/** Runs controllers until the signal; when one fails all end, and its error comes out. */
export async function runControllers(
  controllers: readonly Pick<Controller, 'run'>[],
  signal: AbortSignal,
): Promise<void> {
  const ending = new AbortController();
  const all = AbortSignal.any([signal, ending.signal]);
  await Promise.all(
    controllers.map(async (controller) => {
      try {
        await controller.run(all);
      } catch (error) {
        ending.abort(error);
        throw error;
      }
    }),
  );
}
