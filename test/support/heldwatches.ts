import type { KubeClient } from '../../src/kube/types.ts';

export interface HeldWatches {
  readonly client: KubeClient;
  /** From now on the caches fed by this client do not hear of changes to these resources. */
  hold(...plurals: string[]): void;
  /** The same from the first change of this resource on whose object, as JSON, holds this text. */
  holdFrom(plural: string, text: string): void;
  /** They hear of everything that they have missed, in order. */
  release(): void;
}

/** The client with watches that can be held up, as on a loaded machine or behind a slow network. */
export function holdWatches(client: KubeClient): HeldWatches {
  let held = new Set<string>();
  let trigger: { plural: string; text: string } | undefined;
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  const hold = (...plurals: string[]) => {
    trigger = undefined;
    held = new Set(plurals);
    gate = Promise.withResolvers<void>();
  };
  async function* passed(body: AsyncIterable<Uint8Array>, plural: string): AsyncIterable<Uint8Array> {
    for await (const chunk of body) {
      if (trigger?.plural === plural && Buffer.from(chunk).includes(trigger.text)) hold(plural);
      if (held.has(plural)) await gate.promise;
      yield chunk;
    }
  }
  return {
    client: {
      ...client,
      async stream(request) {
        const reply = await client.stream(request);
        return { ...reply, body: passed(reply.body, request.path.split('/').at(-1) ?? '') };
      },
    },
    hold,
    holdFrom(plural, text) {
      trigger = { plural, text };
    },
    release() {
      trigger = undefined;
      held = new Set();
      gate.resolve();
    },
  };
}
