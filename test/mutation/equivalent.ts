/** Mutants that change nothing that anybody can see: no test can notice them, so they do not count. */
export interface Equivalent {
  readonly file: string;
  /** Mutants from this text to the end of the function that it begins. */
  readonly within?: string;
  /** Mutants that lie in this text. */
  readonly inside?: string;
  /** Mutants as the list of survivors shows them: `what stands there  →  what stands there instead`. */
  readonly changes?: readonly string[];
  readonly why: string;
}

export const equivalents: readonly Equivalent[] = [
  {
    file: 'src/placement/amount.ts',
    within: 'function milliOf',
    why: 'the same text has the same amount, remembered or not',
  },
  {
    file: 'src/placement/amount.ts',
    changes: ['10_000  →  120000', '10_000  →  1'],
    why: 'how many texts are remembered is memory against time',
  },
  {
    file: 'src/placement/amount.ts',
    changes: ['text === undefined ? 0 : milliOf(text)  →  (milliOf(text))'],
    why: 'what is no quantity counts as nothing too',
  },
  {
    file: 'src/placement/nodetree.ts',
    within: 'function hash',
    why: 'any priorities give a tree with the same order; that it is balanced is tested by what it costs',
  },
  {
    file: 'src/placement/nodetree.ts',
    changes: [
      'i < RESOURCES  →  i <= RESOURCES',
      '(left.max[i] as number) > most  →  (left.max[i] as number) >= most',
      '(left.min[i] as number) < least  →  (left.min[i] as number) <= least',
      '(right.max[i] as number) > most  →  (right.max[i] as number) >= most',
      '(right.min[i] as number) < least  →  (right.min[i] as number) <= least',
      'left.priority > right.priority  →  left.priority >= right.priority',
    ],
    why: 'equal numbers are equal, and nobody asks for a tenth resource',
  },
  {
    file: 'src/placement/nodetree.ts',
    changes: ['a.name < b.name  →  a.name <= b.name', 'a.score > b.score  →  a.score >= b.score'],
    why: 'names are unique, and equal scores have been told apart before',
  },
  {
    file: 'src/placement/nodetree.ts',
    changes: ['if (branch === undefined) return undefined;  →  {}'],
    why: 'what is taken out is in the tree: the branch that leads to it is there',
  },
  {
    file: 'src/placement/inventory.ts',
    changes: [
      'this.#dropIfUnused(state);  →  ;',
      'if (state.facts === undefined && state.used[PODS] === 0) this.#nodes.d  →  {}',
      'this.#nodes.delete(state.name);  →  ;',
      'if (users?.size === 0) this.#portUsers.delete(key);  →  {}',
      'this.#portUsers.delete(key);  →  ;',
      'if (known?.size === 0) this.#neighbours.delete(namespace);  →  {}',
      'this.#neighbours.delete(namespace);  →  ;',
    ],
    why: 'nodes that are gone, ports that nobody has and namespaces without pods are forgotten for the sake of memory',
  },
  {
    file: 'src/placement/inventory.ts',
    changes: [
      'state.class ?? this.#classOf(classFacts(state.facts, state.agents > 0)  →  (this.#classOf(classFacts(state.facts, state.agents > 0)))',
      'if (state.class !== undefined) nodeClass.tree.remove(state);  →  { nodeClass.tree.remove(state); }',
      'this.#dirty.clear();  →  ;',
    ],
    why: 'done again, it comes to the same; not to do it saves time',
  },
  {
    file: 'src/placement/inventory.ts',
    changes: [
      'if (pod.assumedAs !== undefined) this.forget(pod.assumedAs);  →  { this.forget(pod.assumedAs); }',
    ],
    why: 'nothing is assumed under undefined',
  },
  {
    file: 'src/placement/place.ts',
    changes: [
      'best !== undefined && candidate.rank > rank  →  (candidate.rank > rank)',
      'request.tag !== undefined && !facts.tags.includes(request.tag)  →  (!facts.tags.includes(request.tag))',
      '1_000  →  12000',
    ],
    why: 'a rank that all candidates have, and no node has a thousand soft taints',
  },
  {
    file: 'src/placement/place.ts',
    changes: [
      'a.score < b.score  →  a.score <= b.score',
      'a.score > b.score  →  a.score >= b.score',
      'a.name > b.name  →  a.name >= b.name',
      'a.name < b.name  →  a.name <= b.name',
    ],
    why: 'names are unique, and equal scores have been told apart before',
  },
  {
    file: 'src/placement/resources.ts',
    changes: ['9  →  10'],
    why: 'an index more has nothing in it and nobody asks for it',
  },
  {
    file: 'src/placement/place.ts',
    inside: 'return 2 * rankOf',
    changes: ['2  →  3'],
    why: 'any factor above 1 keeps the memory the last to decide',
  },
  {
    file: 'src/placement/inventory.ts',
    inside: 'score: 0,',
    why: 'written before anybody reads it, when the node is put into its class',
  },
  {
    file: 'src/placement/inventory.ts',
    changes: ['free: emptyVector(),  →  nothing', 'capacity: emptyVector(),  →  nothing'],
    why: 'both are written anew before anybody reads them',
  },
  {
    file: 'src/placement/nodefacts.ts',
    changes: [
      '1_000  →  12000',
      '1_000  →  1',
      'if (before !== undefined) return before;  →  {}',
      'if (known.size >= mostKnown) known.clear();  →  {}',
      'if (known.size >= mostKnown) known.clear();  →  { known.clear(); }',
      'known.size >= mostKnown  →  known.size > mostKnown',
      'known.clear();  →  ;',
      'known.set(annotation, reported);  →  ;',
    ],
    why: 'the same annotation says the same, remembered or not',
  },
  {
    file: 'src/placement/explain.ts',
    changes: ['misnamed || state.class === undefined  →  (misnamed)', 'a.node < b.node  →  a.node <= b.node'],
    why: 'a node that is listed has a class; names are unique',
  },
  {
    file: 'src/placement/leaveout.ts',
    changes: [
      "whole.kind === 'placed' || request.reservedPorts.length === 0  →  (whole.kind === 'placed')",
      "whole.kind === 'placed' || request.reservedPorts.length === 0  →  (request.reservedPorts.length === 0)",
      "if (whole.kind === 'placed' || request.reservedPorts.length === 0) ret  →  {}",
    ],
    why: 'port by port comes to the same where all of them can be had, or there is none: not to ask again saves time',
  },
  {
    file: 'src/placement/affinity.ts',
    changes: ['value - least  →  value + least'],
    why: 'so much more for every node changes no order',
  },
  {
    file: 'src/placement/affinity.ts',
    changes: ['place === undefined ? 0 : (places.get(place) ?? 0)  →  (places.get(place) ?? 0)'],
    why: 'nobody is counted in no place',
  },
  {
    file: 'src/controllers/credential/status.ts',
    changes: ["'idle'  →  'mutated'"],
    why: 'neither stalled nor reconciling, as is every other word; the type checker takes none',
  },
  {
    file: 'src/registry/publicaddress.ts',
    changes: ["'ipv6'  →  'mutated'"],
    why: "to BlockList.check of Node what is not 'ipv4' is IPv6",
  },
  {
    file: 'src/controller/workqueue.ts',
    changes: ['this.#waiting.size > 0  →  this.#waiting.size >= 0'],
    why: 'where nothing waits there is no next key either',
  },
  {
    file: 'src/controller/workqueue.ts',
    inside: '2 ** 31 - 1',
    changes: ['1  →  2'],
    why: 'the longest timer of all is followed by another, a millisecond sooner or later',
  },
  {
    file: 'src/controller/controller.ts',
    changes: ['10  →  11'],
    why: 'a millisecond more or less before timers have their turn',
  },
  {
    file: 'src/controller/controller.ts',
    inside: '#turnEnds = 0;',
    changes: ['0  →  1'],
    why: 'a process is older than a millisecond when its first pass begins',
  },
  {
    file: 'src/controller/limiter.ts',
    changes: ['true  →  false', 'once: true  →  nothing'],
    why: 'a signal aborts once',
  },
  ...['src/controller/controller.ts', 'src/controller/leader.ts'].map((file) => ({
    file,
    inside: "signal.addEventListener('abort', stop, { once: true });",
    changes: ['true  →  false', 'once: true  →  nothing'],
    why: 'a signal aborts once',
  })),
  {
    file: 'src/controller/leader.ts',
    changes: ['0.2  →  1.2'],
    why: 'candidates only have to try at different times',
  },
  {
    file: 'src/runnerapi/token.ts',
    changes: ["typeof claims !== 'object' || claims === null  →  (claims === null)"],
    why: 'what is no object has none of the claims',
  },
  {
    file: 'src/http/auth/auth.ts',
    changes: ['50_000  →  600000'],
    why: 'how many tokens are remembered is memory against time',
  },
  {
    file: 'src/http/auth/auth.ts',
    changes: [
      'accountUid !== undefined && this.#accounts.has(accountUid)  →  (this.#accounts.has(accountUid))',
    ],
    why: 'there is no account without a UID; the type checker takes none',
  },
  {
    file: 'src/http/auth/permission.ts',
    changes: [
      "route.permission.kind !== 'native' || attributes === undefined  →  (route.permission.kind !== 'native')",
    ],
    why: 'a native permission always has attributes',
  },
  {
    file: 'src/registry/identity.ts',
    changes: ['known.clear();  →  ;', 'if (found !== undefined) return found;  →  {}'],
    why: 'the same address is the same registry, remembered or not',
  },
  {
    file: 'src/registry/scrub.ts',
    changes: [
      'forms .filter((form) => form.length > 2) .sort((a, b) => b.length - a.  →  forms .filter((form) => form.length > 2)',
    ],
    why: 'no form stands in the list before one that it is a part of, so that its order does as well',
  },
  {
    file: 'src/http/server/body.ts',
    inside: "contentType.split(';', 1)",
    changes: ['1  →  2'],
    why: 'only the first part is read',
  },
  {
    file: 'src/registry/client.ts',
    inside: 'offset: 0,',
    changes: ['0  →  1'],
    why: 'an upload that is cancelled at once sends nothing from anywhere',
  },
  {
    file: 'src/registry/client.ts',
    inside: 'await reply.body.dump();\n    if (reply.status === 404) return undefined;',
    changes: ['await reply.body.dump();  →  ;'],
    why: 'an answer to HEAD has no body, and leaves its connection to the next request by itself',
  },
  {
    file: 'src/registry/layer.ts',
    changes: ['1024  →  1', '1024  →  12288'],
    why: 'how much is given to the compressor at once is time',
  },
  {
    file: 'src/registry/layer.ts',
    changes: ['mode: 0o755,  →  nothing', 'mode: 0o755, ...owned  →  ...owned, mode: 0o755'],
    why: 'tar-stream gives a folder this mode where none is said, and an owner has none',
  },
  {
    file: 'src/registry/transport.ts',
    changes: ['text.length > 8192  →  text.length >= 8192'],
    why: 'one that is just as long is whole or is cut a chunk sooner, and where the chunks of a longer one end nobody says',
  },
  ...['src/runnerapi/download.ts', 'src/runnerapi/client.ts'].map((file) => ({
    file,
    changes: ["connection: 'close',  →  nothing"],
    why: 'a request that brings a connection of its own says so by itself',
  })),
  {
    file: 'src/controllers/vm/runner/controlkeys.ts',
    changes: ['...key,  →  nothing'],
    why: 'name and namespace are set where the Secret is made sure of',
  },
  {
    file: 'src/worker/sparsefile.ts',
    changes: ['source.destroy();  →  ;'],
    why: 'a loop over a stream that is left by an error ends the stream as well',
  },
  {
    file: 'src/worker/work.ts',
    changes: ['1024  →  1', '1024  →  12288', 'highWaterMark: 1024 * 1024  →  nothing'],
    why: 'how much of a file is read at once is memory against time',
  },
];

/** Whether a mutant of a file is named, by the text of the file, where the mutant begins, and its line in the list of survivors. */
export function isNamed(file: string, source: string, start: number, change: string): boolean {
  return equivalents.some(
    (each) =>
      each.file === file &&
      each.changes?.includes(change) !== false &&
      isBetween(start, source, each.within, '\n}\n') &&
      isBetween(start, source, each.inside),
  );
}

/** Whether a place lies between the beginning of a text and its end, or the end that comes after; everywhere without a text. */
function isBetween(start: number, source: string, text: string | undefined, end?: string): boolean {
  if (text === undefined) return true;
  const from = source.indexOf(text);
  const to = end === undefined ? from + text.length : source.indexOf(end, from);
  return from !== -1 && from <= start && start < to;
}
