/** Stages of test/run.ts that mount nothing, and make no namespaces. */
const withoutRoot: ReadonlySet<string> = new Set(['check', 'unit']);

/** Why stages cannot run, in a sentence that says what to do; undefined where they can. */
export function rootRefusal(stages: readonly string[], uid: number | undefined): string | undefined {
  const asRoot = stages.filter((stage) => !withoutRoot.has(stage));
  if (uid === 0 || asRoot.length === 0) return undefined;
  return `run it as root: the stages ${asRoot.join(', ')} mount and make namespaces (sudo -E env PATH="$PATH" npm test); check and unit do not (npm test check unit)`;
}
