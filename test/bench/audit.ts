import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createInterface } from 'node:readline';

interface AuditEvent {
  verb: string;
  objectRef?: { resource?: string; subresource?: string };
}

/** Writes that svc3 has asked kube-apiserver for, by `verb resource/subresource`; those for its elections aside. */
export interface WriteCounts {
  readonly byKind: Readonly<Record<string, number>>;
  readonly total: number;
  /** All that svc3 asked for, reads and elections too. */
  readonly requests: Readonly<Record<string, number>>;
}

/** kube-apiserver's own account: what svc3's processes did since the last call, whatever they say themselves. */
export function auditReader(file: string): { since(): Promise<WriteCounts> } {
  let offset = 0;
  return {
    async since() {
      const byKind: Record<string, number> = {};
      const requests: Record<string, number> = {};
      let total = 0;
      const { size } = await stat(file);
      if (size < offset) throw new Error(`${file} has become shorter: what it said is lost`);
      if (size === offset) return { byKind, total, requests };
      const lines = createInterface({ input: createReadStream(file, { start: offset, end: size - 1 }) });
      for await (const line of lines) {
        if (!line.includes('"userAgent":"svc3-')) continue;
        const event = JSON.parse(line) as AuditEvent;
        requests[event.verb] = (requests[event.verb] ?? 0) + 1;
        const kind = writeOf(event);
        if (kind === undefined) continue;
        byKind[kind] = (byKind[kind] ?? 0) + 1;
        total += 1;
      }
      offset = size;
      return { byKind, total, requests };
    },
  };
}

const writeVerbs = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);

function writeOf({ verb, objectRef = {} }: AuditEvent): string | undefined {
  const { resource = '', subresource } = objectRef;
  if (!writeVerbs.has(verb) || resource === 'leases' || /review/.test(resource)) return undefined;
  return `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`;
}
