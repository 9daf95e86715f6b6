/**
 * The first process of a container is sent no signal that it does not listen to, and one that comes before it does is lost. So this module is
 * loaded before all others, and remembers.
 */
const asked = Promise.withResolvers<NodeJS.Signals>();
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => asked.resolve(signal));

/** Resolves when this process is to end. */
export const askedToEnd: Promise<NodeJS.Signals> = asked.promise;
